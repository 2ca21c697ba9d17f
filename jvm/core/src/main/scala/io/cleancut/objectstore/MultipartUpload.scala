package io.cleancut.objectstore

/**
 * An object that appears when its last part is there and [[complete]] is called.
 *
 * Parts have one size but for the last, which may be shorter: R2 takes no others. They may be sent
 * by several threads, in any order, each once. The upload ends with [[complete]] or [[abort]]; one
 * that a crash leaves open is invisible, and costs storage until the bucket's rule for incomplete
 * uploads ends it (R2 has one of 7 days by default, S3 none).
 */
trait MultipartUpload {

  /**
   * @param number
   *   from 1, without gaps by the time of [[complete]]
   */
  def part(number: Int, body: Array[Byte]): Unit

  /** Makes the object of all parts appear. */
  def complete(): Unit

  /** Drops what was sent. After [[complete]] it does nothing. */
  def abort(): Unit
}

object MultipartUpload {

  /** The least that S3 and R2 take for any part but the last. */
  val MinPartBytes: Int = 5 << 20

  val MaxParts = 10000
}
