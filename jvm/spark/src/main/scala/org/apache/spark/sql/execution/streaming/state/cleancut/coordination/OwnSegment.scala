package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.zip.CRC32

import io.cleancut.format.{FramePlace, PlacedFrame}
import io.cleancut.format.cut.Segment
import io.cleancut.objectstore.PartSender

/**
 * A segment with one frame, which is uploaded while the frame is created.
 *
 * @param partBytes
 *   size of all parts except the last
 */
final private[cleancut] class OwnSegment(segment: Segment, parts: PartSender, partBytes: Int) {
  private val crc = new CRC32
  private var length = 0L
  // Parts have a fixed size, and the header shifts their contents.
  private var rest = segment.header

  def name: String = segment.name

  def write(bytes: Array[Byte]): Unit = {
    crc.update(bytes)
    length += bytes.length
    send(rest ++ bytes, isLast = false)
  }

  /**
   * Returns when the segment is durable.
   *
   * @param placed
   *   the frame at its location
   * @return
   *   the frame, and the size of the complete segment
   */
  def finish(bytes: Array[Byte], placed: FramePlace => PlacedFrame): (PlacedFrame, Long) = {
    crc.update(bytes)
    length += bytes.length
    val at = segment.header.length.toLong
    val frame = placed(FramePlace(segment.name, at, length, crc.getValue.toInt))
    val footer = segment.footer(Seq(frame))
    send(rest ++ bytes ++ footer, isLast = true)
    parts.complete()
    (segment.summed(Seq(frame), footer).head, at + length + footer.length)
  }

  def abort(): Unit = parts.abort()

  private def send(bytes: Array[Byte], isLast: Boolean): Unit = {
    var from = 0
    while (bytes.length - from >= partBytes || (isLast && from < bytes.length)) {
      val count = Math.min(partBytes, bytes.length - from)
      parts.send(java.util.Arrays.copyOfRange(bytes, from, from + count))
      from += count
    }
    rest = java.util.Arrays.copyOfRange(bytes, from, bytes.length)
  }
}
