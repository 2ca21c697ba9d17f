package io.cleancut.conf

/** When a task that holds its epoch up is overtaken. */
sealed trait CaptureMode

object CaptureMode {

  /** Never. */
  case object Aligned extends CaptureMode

  /** As soon as it is a straggler. */
  case object Unaligned extends CaptureMode

  /** When it has been a straggler for so long. */
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
 *   by which stragglers are overtaken
 * @param maxEpochNs
 *   after which the whole epoch is
 * @param drainNs
 *   in an epoch that has no new input, and only takes up what is in flight: how long it lets its
 *   stragglers go on at least, counted from its first task
 */
final case class Capture(
    mode: CaptureMode,
    maxEpochNs: Option[Long],
    drainNs: Option[Long] = None
)

object Capture {
  val Off: Capture = Capture(CaptureMode.Aligned, None)
}
