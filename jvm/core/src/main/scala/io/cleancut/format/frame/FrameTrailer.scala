package io.cleancut.format.frame

import scala.util.control.NonFatal

import io.cleancut.base.Crc
import io.cleancut.format.FrameLayout

/**
 * The end of a frame, compared with its checksum.
 *
 * @param sizeBytes
 *   size of the frame
 */
final case class FrameTrailer(
    blocks: Int,
    records: Long,
    keys: Long,
    sizeBytes: Long,
    index: FrameIndex
)

private[format] object FrameTrailer {
  import FrameLayout._

  /**
   * @param index
   *   bytes between the end of the blocks and the tail
   * @param tail
   *   last bytes of the frame
   * @param firstBlock
   *   offset of the blocks
   */
  def parse(
      request: FrameRequest,
      headerCrc: Int,
      index: Array[Byte],
      tail: Array[Byte],
      firstBlock: Long
  ): FrameTrailer = {
    val fields = wrap(tail)
    val (blocks, records, keys) = (fields.getInt, fields.getLong, fields.getLong)
    val sizeBytes = fields.getLong
    if (fields.getInt != index.length) throw request.damaged("the trailer references another index")
    val end = buffer(EndBytes).putInt(0).putInt(index.length).flip()
    val checked = wrap(tail).limit(TailCheckedBytes)
    if (Crc.ofParts(intBytes(headerCrc), end, wrap(index), checked) != fields.getInt) {
      throw request.damaged("the checksum of the trailer is wrong")
    }
    if (fields.getInt != TrailerMagic) {
      throw request.damaged("it does not end with the magic of a frame")
    }
    val parsed =
      try FrameIndex.parse(index, firstBlock)
      catch {
        case NonFatal(e) => throw request.damaged(s"the index cannot be read: ${e.getMessage}")
      }
    parsed.problem(keys).foreach(detail => throw request.damaged(detail))
    FrameTrailer(blocks, records, keys, sizeBytes, parsed)
  }
}
