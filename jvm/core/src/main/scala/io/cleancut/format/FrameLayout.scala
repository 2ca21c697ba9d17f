package io.cleancut.format

import java.nio.{ByteBuffer, ByteOrder}

/** Sizes and constants of a frame, versions 1 and 2. See `docs/FORMAT.md`. */
private[format] object FrameLayout {

  /** Of what is written; version 1, which has no index, is read too. */
  val FormatVersion: Short = 2
  val WithoutIndex: Short = 1

  /** A base that names chains of other stores in the place of rows. */
  val Referring: Short = 3
  val SupportedVersions: String = "1 to 3"
  val HeaderMagic: Int = 0x31464343 // "CCF1", little-endian
  val TrailerMagic: Int = 0x45464343 // "CCFE"
  val HeaderBytes: Int = 16
  val HeaderCheckedBytes: Int = 12
  val BlockHeaderBytes: Int = 16
  val BlockCheckedBytes: Int = 12

  /** What of a trailer stands before and after the index; without one, its first word goes too. */
  val EndBytes: Int = 8
  val TailBytes: Int = 40
  val TailCheckedBytes: Int = 32
  val CodecNone: Byte = 0
  val CodecZstd: Byte = 1

  /**
   * A reader takes a greater length for damage before it allocates memory. A writer fails instead.
   */
  val MaxIdentityBytes: Int = 64 << 20
  val MaxBlockBytes: Int = 1 << 30
  val MaxIndexBytes: Int = 256 << 20

  def buffer(sizeBytes: Int): ByteBuffer = wrap(new Array[Byte](sizeBytes))

  def wrap(bytes: Array[Byte]): ByteBuffer = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
}
