package io.cleancut.coordinator

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}
import java.nio.{ByteBuffer, ByteOrder}

import scala.collection.mutable

import io.cleancut.base.{Clock, Crc, StateVersion, StoreId}
import io.cleancut.cutstore.CutArchive
import io.cleancut.engine.{BlockEncoder, BlockQueue, FrameRecords}
import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.error.Errors
import io.cleancut.format.{FrameKind, FrameName, FramePlace, StoreCut}
import io.cleancut.format.cut.{ChannelReport, Cut, RowsDigest, SealedFrame}
import io.cleancut.format.frame._
import io.cleancut.objectstore.{ObjectKey, RangeResult}

/** The in-flight rows of a cut, for the epoch of an offline operation. */
trait InFlightSource {
  def isEmpty: Boolean

  /**
   * Their frames for another version, and the reports of their shuffle inputs.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FRAME_CORRUPTED, CLEANCUT_FRAME_MISSING
   */
  def frames(version: Long, clock: Clock): (Seq[SealedFrame], Seq[ChannelReport])
}

/**
 * The in-flight rows of a stored cut.
 *
 * @param archive
 *   archive of the cut
 * @param spread
 *   number of partitions over which the rows of an operator are distributed by their hashes; None
 *   leaves them in their partitions
 * @param hashOf
 *   hash of a row, for the digests of the cut
 */
final case class StoredInFlight(
    archive: CutArchive,
    cut: Cut,
    spread: Option[Long => Int],
    hashOf: Array[Byte] => Long
) extends InFlightSource {
  override def isEmpty: Boolean = cut.inFlight.isEmpty

  override def frames(version: Long, clock: Clock): (Seq[SealedFrame], Seq[ChannelReport]) = {
    val rows = new InFlightFrames(archive, version, clock)
    spread.fold((cut.inFlight.map(rows.copy), cut.channels)) { partitions =>
      val divided = cut.inFlight
        .groupBy(channel => (channel.store.operator, channel.store.name))
        .toSeq
        .sortBy(_._1)
        .flatMap { case ((operator, _), channels) =>
          rows.divided(channels.sortBy(_.store.partition), partitions(operator), hashOf)
        }
      val (before, after) =
        (cut.channels.map(_.deferred), divided.map(_._2.deferred))
      require(
        before.map(_.rows).sum == after.map(_.rows).sum &&
          before.map(_.sum).sum == after.map(_.sum).sum,
        s"the in-flight rows of epoch ${cut.epoch} do not match the digest in its cut"
      )
      (divided.map(_._1), divided.map(_._2))
    }
  }
}

/** Reads frames of shuffle inputs, and writes them for another version. */
final private class InFlightFrames(archive: CutArchive, version: Long, clock: Clock) {
  import InFlightFrames._

  /** The rows of a shuffle input, unchanged. */
  def copy(channel: StoreCut): SealedFrame = reading(channel) { (reader, scratch) =>
    val name = nameOf(channel.store)
    val out = new ByteArrayOutputStream(FirstBytes)
    val identity = reader.identity.copy(version = name.version)
    val writer = new FrameWriter(FrameKind.Base, identity, CompressionLevel, out)
    var records = reader.nextBlock()
    while (records > 0) {
      writer.writeBlock(scratch, reader.rawLength, records)
      records = reader.nextBlock()
    }
    writer.finish(reader.trailer.keys, reader.trailer.index.totals)
    SealedFrame(name, SealedFrame.Maintenance, out.toByteArray)
  }

  /**
   * The rows of one input of an operator, distributed over other partitions. All rows of a key are
   * in one partition before and after, so they keep their order.
   *
   * @param channels
   *   in the order of their partitions
   */
  def divided(
      channels: Seq[StoreCut],
      partitions: Int,
      hashOf: Array[Byte] => Long
  ): Seq[(SealedFrame, ChannelReport)] = {
    val byPartition = mutable.TreeMap.empty[Int, mutable.ArrayBuffer[Row]]
    var first = Option.empty[FrameIdentity]
    for (channel <- channels) reading(channel) { (reader, scratch) =>
      first = first.orElse(Some(reader.identity))
      val records = new FrameRecords(reader, scratch)
      while (records.advance()) {
        val hash = keyOf(records.key).getInt(HashAt)
        val row = Row(hash, records.value.toArray(Memory.access))
        byPartition.getOrElseUpdate(
          Math.floorMod(hash, partitions),
          mutable.ArrayBuffer.empty
        ) += row
      }
    }
    byPartition.toSeq.map { case (partition, rows) =>
      val channel = channels.head.store.copy(partition = partition)
      val digest = new RowsDigest.Builder
      rows.foreach(row => digest.add(hashOf(row.bytes)))
      val report = ChannelReport(channel, digest.result, digest.result)
      (written(channel, first.get, rows.toSeq), report)
    }
  }

  private def written(channel: StoreId, like: FrameIdentity, rows: Seq[Row]): SealedFrame = {
    val name = nameOf(channel)
    val family = like.families.head.id
    val identity = like.copy(
      store = channel,
      version = name.version,
      keys = Some(rows.size.toLong),
      familyKeys = Map(family -> rows.size.toLong)
    )
    val out = new ByteArrayOutputStream(FirstBytes)
    val frame = new FrameWriter(FrameKind.Base, identity, CompressionLevel, out)
    val queue = new BlockQueue(frame)
    try {
      val blocks = new BlockEncoder(Memory.access, queue)
      rows.zipWithIndex.foreach { case (row, number) =>
        blocks.put(family, Bytes.of(key(number.toLong, row.hash)), Bytes.of(row.bytes))
      }
      blocks.flush()
      queue.finish()
    } finally queue.close()
    frame.finish(rows.size.toLong)
    SealedFrame(name, SealedFrame.Maintenance, out.toByteArray)
  }

  private def nameOf(store: StoreId) =
    FrameName(store, StateVersion(version, StateVersion.newId(clock)), FrameKind.Base)

  private def reading[A](channel: StoreCut)(read: (FrameReader, BlockScratch) => A): A = {
    val (kind, known, place) = channel.frames.last
    val path = s"${archive.pathOf(place.segment)} at ${place.offset}"
    val request = FrameRequest(path, channel.store, known, kind)
    val scratch = BlockScratch.borrow()
    try
      read(
        new FrameReader(request, new ByteArrayInputStream(bytes(request, place)), scratch),
        scratch
      )
    finally scratch.giveBack()
  }

  private def bytes(request: FrameRequest, place: FramePlace): Array[Byte] =
    archive.store.getRange(
      ObjectKey(place.segment),
      place.offset,
      place.length.toInt
    ) match {
      case RangeResult.Found(bytes) =>
        if (Crc.of(bytes) != place.crc) {
          throw request.damaged("the bytes do not match the cut")
        }
        bytes
      case _ =>
        throw Errors.frameMissing(
          archive.location,
          request.store.operator,
          request.store.partition,
          request.store.name,
          request.version.number,
          s"${request.path} is missing"
        )
    }
}

private object InFlightFrames {
  final case class Row(hash: Int, bytes: Array[Byte])

  /** zstd level, the same as for small frames. */
  private val CompressionLevel = 1
  private val FirstBytes = 16 << 10

  // Length of a Spark row with a long and an int: one word of null bits, and one word per column.
  private val NumberAt = 8
  private val HashAt = 16
  private val KeyBytes = 24

  private def keyOf(bytes: Bytes): ByteBuffer = little(bytes.toArray(Memory.access))

  private def key(number: Long, hash: Int): Array[Byte] = {
    val bytes = new Array[Byte](KeyBytes)
    little(bytes).putLong(NumberAt, number).putInt(HashAt, hash)
    bytes
  }

  private def little(bytes: Array[Byte]) = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
}
