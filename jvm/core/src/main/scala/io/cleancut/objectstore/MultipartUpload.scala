package io.cleancut.objectstore

/**
 * An object that appears when all its parts are stored and [[complete]] is called.
 *
 * Parts have the same size except for the last one, which may be shorter: R2 requires this. Several
 * threads may send them in any order, each once. The upload ends with [[complete]] or [[abort]]. An
 * upload that a crash leaves open is invisible, and costs storage until the bucket's lifecycle rule
 * for incomplete uploads ends it (R2 has one of 7 days by default, S3 none).
 */
trait MultipartUpload {

  /**
   * @param number
   *   from 1, without gaps at [[complete]]
   */
  def part(number: Int, body: Array[Byte]): Unit

  /** Assembles the object from all parts. */
  def complete(): Unit

  /** Deletes the sent parts. Has no effect after [[complete]]. */
  def abort(): Unit
}

object MultipartUpload {

  /** Smallest size in S3 and R2 of any part except the last. */
  val MinPartBytes: Int = 5 << 20

  val MaxParts = 10000
}
