package io.cleancut.format

import java.nio.{ByteBuffer, ByteOrder}

/** Sizes and constants of a frame. See `docs/FORMAT.md`. */
private[format] object FrameLayout {
  val TrailerMagic: Int = 0x45464343 // "CCFE"
  val HeaderBytes: Int = 16
  val HeaderCheckedBytes: Int = 12
  val BlockHeaderBytes: Int = 16
  val BlockCheckedBytes: Int = 12

  /** Sizes of the trailer's parts before and after the index. */
  val EndBytes: Int = 8
  val TailBytes: Int = 40
  val TailCheckedBytes: Int = 32
  val CodecNone: Byte = 0
  val CodecZstd: Byte = 1

  /**
   * Limit of a length. A reader treats a greater length as corruption before it allocates memory; a
   * writer fails.
   */
  val MaxIdentityBytes: Int = 64 << 20
  val MaxBlockBytes: Int = 1 << 30
  val MaxIndexBytes: Int = 256 << 20

  def buffer(sizeBytes: Int): ByteBuffer = wrap(new Array[Byte](sizeBytes))

  def wrap(bytes: Array[Byte]): ByteBuffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)

  /** The bytes of a number in checksums. */
  def intBytes(value: Int): ByteBuffer = buffer(4).putInt(value).flip()
}
