package io.cleancut.conf

import io.cleancut.error.Errors

/** The checked configuration of one state store provider; see [[Keys]] for what each value does. */
final case class Settings(
    compressionLevel: Int,
    acquireTimeoutMs: Long,
    memoryBound: Long,
    realTimeMode: Boolean
) {

  /** The bound in bytes, in a JVM that may have a heap of so many. */
  def memoryBoundBytes(maxHeapBytes: Long): Long =
    if (memoryBound == KeyType.Auto) maxHeapBytes / 2 else memoryBound
}

object Settings {

  val Default: Settings =
    Settings(
      Keys.CompressionLevel.default,
      Keys.AcquireTimeout.default,
      Keys.MemoryBound.default,
      Keys.RealTimeMode.default
    )

  /**
   * Reads what lies below [[Keys.Prefix]] and leaves all other keys alone.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CONF_INVALID, which names every wrong value and every unknown key at once
   */
  def from(confs: Map[String, String]): Settings = {
    val compressionLevel = Keys.CompressionLevel.read(confs)
    val acquireTimeoutMs = Keys.AcquireTimeout.read(confs)
    val memoryBound = Keys.MemoryBound.read(confs)
    val realTimeMode = Keys.RealTimeMode.read(confs)
    val read = Seq(compressionLevel, acquireTimeoutMs, memoryBound, realTimeMode)
    val problems = read.flatMap(_.left.toSeq) ++ unknown(confs)
    (compressionLevel, acquireTimeoutMs, memoryBound, realTimeMode) match {
      case (Right(level), Right(timeoutMs), Right(bound), Right(realTime)) if problems.isEmpty =>
        Settings(level, timeoutMs, bound, realTime)
      case _ => throw Errors.confInvalid(problems)
    }
  }

  private def unknown(confs: Map[String, String]): Seq[String] = {
    val known = Keys.all.map(_.name)
    confs.keys.toSeq.sorted
      .filter(name => name.startsWith(Keys.Prefix) && !known.contains(name))
      .map(name => s"$name is not a key; the nearest is ${nearest(name, known)}.")
  }

  private def nearest(name: String, known: Seq[String]): String =
    known.minBy(EditDistance.ignoringCase(name, _))
}
