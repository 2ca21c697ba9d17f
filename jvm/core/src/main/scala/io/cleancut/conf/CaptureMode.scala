package io.cleancut.conf

/** When a task that delays its epoch is overtaken. */
sealed trait CaptureMode

object CaptureMode {

  /** Never. */
  case object Aligned extends CaptureMode

  /** When it is a straggler. */
  case object Unaligned extends CaptureMode

  /** When it has been a straggler for this time. */
  final case class Auto(timeoutNs: Long) extends CaptureMode

  val names: Seq[String] = Seq("aligned", "unaligned", "auto")

  def nameOf(mode: CaptureMode): String = mode match {
    case Aligned   => "aligned"
    case Unaligned => "unaligned"
    case Auto(_)   => "auto"
  }

  def named(name: String, timeoutMs: Long): CaptureMode = name match {
    case "unaligned" => Unaligned
    case "auto"      => Auto(timeoutMs * 1000000L)
    case _           => Aligned
  }
}

/**
 * When the stragglers of an epoch are overtaken.
 *
 * @param mode
 *   mode that decides about stragglers
 * @param maxEpochNs
 *   age at which all tasks of an epoch are overtaken
 * @param drainNs
 *   minimum time, from its first task, for stragglers of an epoch that has no new input and only
 *   processes in-flight rows
 */
final case class Capture(
    mode: CaptureMode,
    maxEpochNs: Option[Long],
    drainNs: Option[Long] = None
)

object Capture {
  val Off: Capture = Capture(CaptureMode.Aligned, None)
}
