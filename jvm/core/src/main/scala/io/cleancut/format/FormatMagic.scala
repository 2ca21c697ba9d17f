package io.cleancut.format

import java.nio.ByteBuffer

import io.cleancut.error.Errors

/**
 * The start of a binary object: the magic of its kind, and the format version. Objects of builds
 * before release 0.1.0 are recognized by their magic and refused.
 */
private[format] object FormatMagic {
  // Little-endian.
  val Frame: Int = 0x52464343 // "CCFR"
  val Segment: Int = 0x47534343 // "CCSG"
  val Cut: Int = 0x54434343 // "CCCT"
  val Page: Int = 0x47504343 // "CCPG"
  val Version: Short = 1

  /** The version of objects of builds before release 0.1.0, for errors. */
  val Unreleased: String = "0 (written before release 0.1.0)"
  private val UnreleasedLetter = '1' << 24

  /**
   * Reads magic and version.
   *
   * @param path
   *   path of the object, for errors
   * @param damaged
   *   creates the error for another magic
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FORMAT_UNKNOWN, and the error of `damaged`
   */
  def check(head: ByteBuffer, magic: Int, path: String)(damaged: => Throwable): Unit = {
    val actual = head.getInt
    val version = head.getShort
    if (actual == (magic & 0xffffff | UnreleasedLetter)) {
      throw Errors.formatUnknown(path, Unreleased, Version.toString)
    }
    if (actual != magic) throw damaged
    if (version != Version) {
      throw Errors.formatUnknown(path, version.toString, Version.toString)
    }
  }
}
