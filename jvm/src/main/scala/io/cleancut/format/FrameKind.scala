package io.cleancut.format

/** What a frame holds: the changes of one epoch, or all live rows. */
sealed abstract class FrameKind(val code: Byte, val extension: String)

object FrameKind {
  case object Delta extends FrameKind(1, "delta")
  case object Base extends FrameKind(2, "base")

  val all: Seq[FrameKind] = Seq(Delta, Base)
}
