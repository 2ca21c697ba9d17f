package io.cleancut.conf

/**
 * Every configuration key of Cleancut. What Spark has a key for already (versions to keep, deltas
 * before a snapshot, maintenance interval) is read from Spark's key and has none here.
 */
object Keys {

  /** Spark hands the keys below `spark.sql.streaming.stateStore.` to executors, and no others. */
  val Prefix = "spark.sql.streaming.stateStore.cleancut."

  val CompressionLevel: Key[Int] = Key(
    "compressionLevel",
    doc = "How hard zstd works on what a commit writes. A higher level makes smaller files and " +
      "costs processor time within the task at every commit; a negative level is faster than 1 " +
      "and compresses less. Files of any level can be read whatever the level is now.",
    default = -2,
    KeyType.int("zstd level", min = -7, max = 19),
    since = "0.1.0"
  )

  val AcquireTimeout: Key[Long] = Key(
    "acquireTimeout",
    doc = "How long a task waits for a state store that another attempt of the same task still " +
      "holds, before it fails and Spark runs it again. Shorter finds a hanging attempt sooner; " +
      "too short fails tasks whose predecessor is only slow to notice that it was cancelled.",
    default = 120000L,
    KeyType.durationMs(maxMs = 3600000L),
    since = "0.1.0"
  )

  val MemoryBound: Key[Long] = Key(
    "memoryBound",
    doc = "How much memory outside the heap the state of one executor takes, all its stores " +
      "together. What goes beyond lies in memory-mapped files in Spark's local directories, " +
      "which the operating system keeps in memory as far as there is room. auto is half of the " +
      "executor's heap. Where executors run in containers, the bound is part of " +
      "spark.executor.memoryOverhead. The query whose store was opened last sets it.",
    default = KeyType.Auto,
    KeyType.bytesOrAuto(min = 1L << 20),
    since = "0.1.0"
  )

  val RealTimeMode: Key[Boolean] = Key(
    "realTimeMode",
    doc = "Keeps the state of a session's queries in Cleancut without providerClass, which must " +
      "then stay unset: Spark refuses a query in real-time mode in a session that names any " +
      "provider but RocksDB. It needs the session extension, and holds for all queries that are " +
      "started while it is true, in real-time mode or not.",
    default = false,
    KeyType.boolean,
    since = "0.1.0"
  )

  val all: Seq[Key[_]] = Seq(AcquireTimeout, CompressionLevel, MemoryBound, RealTimeMode)
}
