package io.cleancut.channels

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
