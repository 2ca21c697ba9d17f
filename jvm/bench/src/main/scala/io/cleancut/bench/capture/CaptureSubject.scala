package io.cleancut.bench.capture

import io.cleancut.bench.base.Provider

/** A configuration under which a query runs, with or without in-flight rows. */
final case class CaptureSubject(name: String, confs: Map[String, String], isCleancut: Boolean)

object CaptureSubject {
  private val Prefix = "spark.sql.streaming.stateStore.cleancut"

  val Rocks: CaptureSubject =
    CaptureSubject("RocksDB", Provider.RocksForQueries.head.confs, isCleancut = false)

  /** Cuts on the local disk, in one of the modes. */
  def mode(name: String, timeout: String): CaptureSubject = CaptureSubject(
    name,
    Provider.Cleancut.confs ++ Map(
      "spark.sql.streaming.checkpointFileManagerClass" ->
        "io.cleancut.CleancutCheckpointFileManager",
      s"$Prefix.cuts" -> "true",
      s"$Prefix.mode" -> name,
      s"$Prefix.alignmentTimeout" -> timeout
    ),
    isCleancut = true
  )

  val Aligned = "aligned"

  val modes: Seq[String] = Seq(Aligned, "auto", "unaligned")
}
