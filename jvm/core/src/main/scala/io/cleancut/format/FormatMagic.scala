package io.cleancut.format

import java.nio.ByteBuffer

import io.cleancut.error.Errors

/**
 * What a binary object begins with: the magic of its kind, and the version of the format. The
 * objects of builds before release 0.1.0 are recognized by their magic, and refused.
 */
private[format] object FormatMagic {
  val Frame: Int = 0x52464343 // "CCFR", little-endian
  val Version: Short = 1

  /** Of objects before release 0.1.0: the last letter of the magic was a 1. */
  private val Unreleased = '1' << 24
  private val UnreleasedVersion = "0 (written before release 0.1.0)"

  /**
   * Reads magic and version.
   *
   * @param path
   *   of the object, for the error
   * @param damaged
   *   makes the error for another magic
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FORMAT_UNKNOWN, and that of `damaged`
   */
  def check(head: ByteBuffer, magic: Int, path: String)(damaged: => Throwable): Unit = {
    val found = head.getInt
    val version = head.getShort
    if (found == (magic & 0xffffff | Unreleased)) {
      throw Errors.formatUnknown(path, UnreleasedVersion, Version.toString)
    }
    if (found != magic) throw damaged
    if (version != Version) {
      throw Errors.formatUnknown(path, version.toString, Version.toString)
    }
  }
}
