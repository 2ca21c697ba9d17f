package io.cleancut.cutstore

import java.util.concurrent.atomic.AtomicInteger

import io.cleancut.base.SharedReads
import io.cleancut.error.CleancutException
import io.cleancut.format.FramePlace
import io.cleancut.objectstore.{ObjectKey, ObjectStore}

/**
 * Small frames of segments, read in pieces of the segment. The stores of one executor have frames
 * in the same segments, so a piece that is read for one store serves others.
 *
 * Pieces only pay off if they are requested again before they are evicted. If not, because the
 * segments have more pieces than fit, frames are read individually for a while. Thread-safe.
 *
 * @param maxBytes
 *   limit of all cached pieces
 */
final class SegmentPieces(maxBytes: Long, pieceBytes: Int) {
  import SegmentPieces._

  private val pieces = new SharedReads[Key, Array[Byte]](maxBytes, _.length.toLong)
  private val room = Math.max(1L, maxBytes / pieceBytes).toInt
  // Counts since the last comparison.
  private val requests = new AtomicInteger
  private val read = new AtomicInteger
  // Number of further frames to read individually.
  private val alone = new AtomicInteger

  /**
   * The bytes of a range; None if it should be read individually, or is incomplete: the individual
   * read reports the reason.
   *
   * @param runId
   *   run of the query; a checkpoint may have been deleted between two runs, and created again
   */
  def range(store: ObjectStore, runId: String, place: FramePlace): Option[Array[Byte]] = {
    val end = place.offset + place.length
    val (first, last) = (place.offset / pieceBytes, (end - 1) / pieceBytes)
    if (last - first > 1 || !pays()) None
    else
      {
        val parts = (first to last).map { number =>
          pieces(Key(store.location, runId, place.segment, number))(piece(store, place, number))
        }
        Option.when(parts.forall(_.isDefined))(slice(parts.flatten, first * pieceBytes, place))
      }.flatten
  }

  private def slice(
      pieces: Seq[Array[Byte]],
      from: Long,
      place: FramePlace
  ): Option[Array[Byte]] = {
    val joined = if (pieces.size == 1) pieces.head else pieces.reduce(_ ++ _)
    val at = (place.offset - from).toInt
    Option.when(joined.length >= at + place.length)(
      java.util.Arrays.copyOfRange(joined, at, at + place.length.toInt)
    )
  }

  private def piece(store: ObjectStore, place: FramePlace, number: Long): Option[Array[Byte]] = {
    read.incrementAndGet()
    try
      store
        .getPiece(ObjectKey(place.segment), number * pieceBytes, pieceBytes)
        .map(_.bytes)
    // Corruption of other frames does not affect this one.
    catch { case _: CleancutException => None }
  }

  private def pays(): Boolean =
    if (alone.get > 0) {
      alone.decrementAndGet()
      false
    } else {
      val count = requests.incrementAndGet()
      val reads = read.get
      if (reads >= room) {
        requests.set(0)
        read.set(0)
        if (count < LeastGain * reads) alone.set(AloneForRoom * room)
      }
      true
    }
}

object SegmentPieces {
  final private case class Key(location: String, runId: String, segment: String, piece: Long)

  private val LeastGain = 2
  private val AloneForRoom = 4
  private val MaxBytes = 64L << 20
  // A request takes about as long as the transfer of a piece of this size.
  private val PieceBytes = 1 << 20

  /** The pieces of this process. */
  val shared = new SegmentPieces(MaxBytes, PieceBytes)
}
