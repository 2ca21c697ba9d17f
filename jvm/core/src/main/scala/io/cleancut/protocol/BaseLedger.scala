package io.cleancut.protocol

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{FrameKind, PackedChain, PlacedFrame, StoreCut}
import io.cleancut.format.cut.{Cut, LateBase}

/**
 * The bases that background maintenance writes concurrently with the epochs of one run. Pure.
 *
 * A base is stored in a segment of its version's epoch. Garbage collection deletes a segment that
 * is `margin` epochs older than the oldest retained cut and that this cut does not reference. A
 * base whose upload takes longer is *late*: its executor announces it before the upload. From then
 * on [[retainedSegments]] protects its segment from garbage collection, and the cuts after its
 * adoption list it, because the oldest retained cut does not reference it yet ([[lateIn]]).
 *
 * @param margin
 *   largest number of epochs between an unannounced base and the first cut that references it
 */
final private[cleancut] class BaseLedger(val margin: Long) {
  import BaseLedger._

  private var written = Map.empty[StoreId, Written]
  private val announced = mutable.Map.empty[String, Long]
  // Older cuts are not retained by any garbage collection.
  private var sweptTo = -1L

  /**
   * The segment of a base is about to be written, or is still being written.
   *
   * @return
   *   whether its version is recent enough
   */
  def announce(segment: String, version: Long, last: Long, nowNs: Long): Boolean = {
    // A garbage collection that has begun may delete older segments, and does not know this one.
    val isTaken = announced.contains(segment) || version >= oldest(last)
    if (isTaken) announced(segment) = nowNs + PatienceNs
    isTaken
  }

  /**
   * Whether a durable base may replace the frames that it contains. Whether its version counts is
   * decided when its epoch is closed.
   */
  def ack(base: PlacedFrame, last: Long, current: Option[Cut]): Ack = {
    val store = base.name.store
    val number = base.name.version.number
    val known = written.get(store).map(_.base)
    val isKnown = known.contains(base) || current.flatMap(_.of(store)).exists(isNamed(base, _))
    val isAnnounced = announced.remove(base.place.segment).isDefined
    if (isKnown) Ack.Duplicate
    else if (!isAnnounced && number < oldest(last))
      Ack.Discarded(s"it belongs to the older epoch ${number - 1}")
    else if (known.exists(_.name.version.number > number)) Ack.Discarded("there is a newer one")
    else {
      written += store -> Written(base, last)
      Ack.Accepted
    }
  }

  /**
   * A function that returns the chain of a store, beginning with a base if there is one now. It may
   * be called without the lock of the coordinator.
   */
  def withBases: StoreCut => StoreCut = {
    val bases = written
    store => bases.get(store.store).fold(store)(known => adopting(store, known.base))
  }

  /** An epoch is committed. Forgets bases that no cut has adopted for long. */
  def advance(done: Cut): Unit =
    written = written.filter { case (store, known) =>
      done.epoch - known.since < margin && !done.of(store).exists(isNamed(known.base, _))
    }

  /**
   * A function that returns the late bases that the cut of an epoch must list, given its stores:
   * the bases that it references first, and those of the previous cut that a retained cut may still
   * require. It may be called without the lock of the coordinator.
   */
  def lateIn(epoch: Long, before: Option[Cut]): Seq[StoreCut] => Seq[LateBase] = {
    val listed = before.toSeq.flatMap(_.late).filter(_.since > sweptTo)
    stores =>
      val first = stores.filter { store =>
        val chain = PackedChain.of(store.frames)
        chain.base.exists(_ < oldest(epoch - 1)) &&
        CutWindow.isNewBase(chain, before.flatMap(_.of(store.store)))
      }
      listed ++ first.map(store => LateBase(store.frames.head._3.segment, epoch))
  }

  /**
   * The segments that a garbage collection must not delete if it keeps the cuts from `oldest` on,
   * in addition to those that the cuts reference. Expires announcements that were not renewed for
   * long.
   */
  def retainedSegments(oldest: Long, last: Option[Cut], nowNs: Long): Set[String] = {
    announced.filterInPlace { case (_, untilNs) => untilNs - nowNs > 0 }
    announced.keySet.toSet ++ written.values.map(_.base.place.segment) ++
      last.toSeq.flatMap(_.retainedSegments(oldest))
  }

  /** Whether a cut before this epoch may be retained and so decides in a garbage collection. */
  def mayKeepBefore(since: Long): Boolean = since > sweptTo

  /** The segments of bases that a cut may adopt. */
  def segments: Set[String] = written.values.map(_.base.place.segment).toSet

  /** Cuts before `oldest` are no longer retained. */
  def swept(oldest: Long): Unit = sweptTo = Math.max(sweptTo, oldest)

  private def oldest(last: Long): Long = last + 2 - margin
}

private[cleancut] object BaseLedger {

  /** How long an announcement is valid; a writer renews it far more often. */
  val PatienceNs: Long = TimeUnit.MINUTES.toNanos(30)

  /** @param since last committed epoch when the base was accepted */
  final private case class Written(base: PlacedFrame, since: Long)

  private def adopting(store: StoreCut, base: PlacedFrame): StoreCut = {
    val at = (base.name.version.number - store.frames.head._2.number).toInt
    // A cut that already references one continues with it: its frames are read in any order.
    val isToAdopt = at >= 0 && at < store.frames.size && {
      val (kind, version, _) = store.frames(at)
      kind == FrameKind.Delta && version == base.name.version
    }
    if (!isToAdopt) store
    else {
      val head = (base.name.kind, base.name.version, base.place)
      StoreCut(store.store, PackedChain.of(head +: store.frames.drop(at + 1)))
    }
  }

  private def isNamed(base: PlacedFrame, in: StoreCut): Boolean = {
    val (kind, version, place) = in.frames.head
    kind == FrameKind.Base && version == base.name.version && place == base.place
  }
}
