package io.cleancut.cutstore

import java.util.concurrent.atomic.AtomicInteger

import io.cleancut.base.SharedReads
import io.cleancut.error.CleancutException
import io.cleancut.format.FramePlace
import io.cleancut.objectstore.{ObjectKey, ObjectStore}

/**
 * Small frames of segments, read a piece of the segment at a time. The stores of one executor have
 * frames in the same segments, so that what is read for the first of them serves the others.
 *
 * Pieces pay only if they are asked for again before they have to go. Where that is not so, because
 * the segments have more pieces than there is room for, frames are read by themselves for a while.
 * Thread-safe.
 *
 * @param maxBytes
 *   of all pieces that are kept
 */
final class SegmentPieces(maxBytes: Long, pieceBytes: Int) {
  import SegmentPieces._

  private val pieces = new SharedReads[Key, Array[Byte]](maxBytes, _.length.toLong)
  private val room = Math.max(1L, maxBytes / pieceBytes).toInt
  // Since they were last compared.
  private val asked = new AtomicInteger
  private val read = new AtomicInteger
  // So many more are read by themselves.
  private val alone = new AtomicInteger

  /**
   * The bytes of a range; None if it is better read by itself, or if it is not all there: then who
   * reads it finds out why.
   *
   * @param runId
   *   of the query; a checkpoint may have been deleted between two runs, and begun again
   */
  def range(store: ObjectStore, runId: String, place: FramePlace): Option[Array[Byte]] = {
    val end = place.offset + place.length
    val (first, last) = (place.offset / pieceBytes, (end - 1) / pieceBytes)
    if (last - first > 1 || !pays()) None
    else
      {
        val found = (first to last).map { number =>
          pieces(Key(store.location, runId, place.segment, number))(piece(store, place, number))
        }
        Option.when(found.forall(_.isDefined))(slice(found.flatten, first * pieceBytes, place))
      }.flatten
  }

  private def slice(
      found: Seq[Array[Byte]],
      from: Long,
      place: FramePlace
  ): Option[Array[Byte]] = {
    val joined = if (found.size == 1) found.head else found.reduce(_ ++ _)
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
    // Damage to others of its frames is no damage to this one.
    catch { case _: CleancutException => None }
  }

  private def pays(): Boolean =
    if (alone.get > 0) {
      alone.decrementAndGet()
      false
    } else {
      val asks = asked.incrementAndGet()
      val reads = read.get
      if (reads >= room) {
        asked.set(0)
        read.set(0)
        if (asks < LeastGain * reads) alone.set(AloneForRoom * room)
      }
      true
    }
}

object SegmentPieces {
  final private case class Key(location: String, runId: String, segment: String, piece: Long)

  private val LeastGain = 2
  private val AloneForRoom = 4
  private val MaxBytes = 64L << 20
  // As long as a request takes to be answered, so many come in another 10 ms.
  private val PieceBytes = 1 << 20

  /** Those of this process. */
  val shared = new SegmentPieces(MaxBytes, PieceBytes)
}
