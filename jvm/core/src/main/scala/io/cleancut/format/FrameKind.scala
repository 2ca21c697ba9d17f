package io.cleancut.format

/** The content of a frame: the changes of one epoch (delta), or all live rows (base). */
sealed abstract class FrameKind(val code: Byte, val extension: String) extends Serializable

object FrameKind {
  case object Delta extends FrameKind(1, "delta")
  case object Base extends FrameKind(2, "base")

  /**
   * Code in the header of a base that references chains of other stores instead of containing rows.
   */
  val ReferenceCode: Byte = 3

  val all: Seq[FrameKind] = Seq(Delta, Base)

  /** The kind with a code in the header of a frame. */
  def inHeader(code: Byte): Option[FrameKind] =
    if (code == ReferenceCode) Some(Base) else all.find(_.code == code)

  /** The kind with an extension; throws `IllegalArgumentException` if it is unknown. */
  def named(extension: String): FrameKind = all
    .find(_.extension == extension)
    .getOrElse(throw new IllegalArgumentException(s"unknown kind of frame: $extension"))

  /** The kind with a code; throws `IllegalArgumentException` if it is unknown. */
  def coded(code: Byte): FrameKind = code match {
    case Delta.code => Delta
    case Base.code  => Base
    case other      => throw new IllegalArgumentException(s"unknown kind of frame: $other")
  }
}
