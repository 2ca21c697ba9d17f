package io.cleancut.format

/** What a frame holds: the changes of one epoch, or all live rows. */
sealed abstract class FrameKind(val code: Byte, val extension: String) extends Serializable

object FrameKind {
  case object Delta extends FrameKind(1, "delta")
  case object Base extends FrameKind(2, "base")

  /** In the header of a base that names chains of other stores instead of rows. */
  val ReferenceCode: Byte = 3

  val all: Seq[FrameKind] = Seq(Delta, Base)

  /** By the code in the header of a frame. */
  def inHeader(code: Byte): Option[FrameKind] =
    if (code == ReferenceCode) Some(Base) else all.find(_.code == code)

  /** By its extension; throws `IllegalArgumentException` where there is none. */
  def named(extension: String): FrameKind = all
    .find(_.extension == extension)
    .getOrElse(throw new IllegalArgumentException(s"unknown kind of frame: $extension"))

  /** By its code; throws `IllegalArgumentException` where there is none. */
  def coded(code: Byte): FrameKind = code match {
    case Delta.code => Delta
    case Base.code  => Base
    case other      => throw new IllegalArgumentException(s"unknown kind of frame: $other")
  }
}
