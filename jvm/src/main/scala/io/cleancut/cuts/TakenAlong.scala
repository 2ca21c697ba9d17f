package io.cleancut.cuts

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.util.zip.CRC32

import io.cleancut.{Clock, StateVersion}
import io.cleancut.channels.ChannelReport
import io.cleancut.error.Errors
import io.cleancut.format._
import io.cleancut.objects.{ObjectKey, RangeResult}

/**
 * Rows in flight that an epoch has from an earlier cut, and not from tasks.
 *
 * @param channels
 *   each with the one frame that holds its rows
 * @param reports
 *   what was decided of them
 */
final private[cuts] case class TakenAlong(channels: Seq[StoreCut], reports: Seq[ChannelReport])

private[cuts] object TakenAlong {

  /** Level of zstd, as of frames that are small. */
  private val CompressionLevel = 1

  /**
   * The rows of a channel under another version.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FRAME_DAMAGED, CLEANCUT_FRAME_MISSING
   */
  def frame(archive: CutArchive, channel: StoreCut, version: Long, clock: Clock): SealedFrame = {
    val (kind, known, place) = channel.frames.last
    val path = s"${archive.pathOf(place.segment)} at ${place.offset}"
    val request = FrameRequest(path, channel.store, known, kind)
    val name = FrameName(channel.store, StateVersion(version, StateVersion.newId(clock)), kind)
    val scratch = BlockScratch.borrow()
    try {
      val reader =
        new FrameReader(request, new ByteArrayInputStream(bytes(archive, request, place)), scratch)
      val out = new ByteArrayOutputStream(place.length.toInt)
      val identity = reader.identity.copy(version = name.version)
      val writer = new FrameWriter(kind, identity, CompressionLevel, out)
      var records = reader.nextBlock()
      while (records > 0) {
        writer.writeBlock(scratch, reader.rawLength, records)
        records = reader.nextBlock()
      }
      writer.finish(reader.trailer.keys, reader.trailer.index.totals)
      SealedFrame(name, QueryLedger.Maintenance, out.toByteArray)
    } finally scratch.giveBack()
  }

  /** Those frames, where they lie now, of the channels of a cut. */
  def of(placed: Seq[PlacedFrame], cut: Cut): TakenAlong = TakenAlong(
    placed.map { of =>
      StoreCut(of.name.store, PackedChain.of(Vector((of.name.kind, of.name.version, of.place))))
    },
    cut.channels
  )

  private def bytes(archive: CutArchive, request: FrameRequest, place: FramePlace) = {
    val range = archive.store.getRange(ObjectKey(place.segment), place.offset, place.length.toInt)
    range match {
      case RangeResult.Found(found) =>
        val crc = new CRC32
        crc.update(found)
        if (crc.getValue.toInt != place.crc) {
          throw request.damaged("these are not the bytes that the cut names")
        }
        found
      case _ =>
        val StateVersion(number, _) = request.version
        throw Errors.frameMissing(
          archive.location,
          request.store.operator,
          request.store.partition,
          request.store.name,
          number,
          s"${request.path} is missing"
        )
    }
  }
}
