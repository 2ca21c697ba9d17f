package io.cleancut.protocol

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import io.cleancut.base.StoreId
import io.cleancut.format.{FrameKind, PackedChain, PlacedFrame, StoreCut}
import io.cleancut.format.cut.{Cut, LateBase}

/**
 * The bases that maintenance writes beside the epochs of one run. Pure.
 *
 * A base lies in a segment of its version's epoch, and a sweep takes a segment that lies `margin`
 * epochs behind the oldest kept cut and is not named there. A base whose upload lasts longer than
 * that is *late*: it has to be announced before its upload, from when on [[spared]] keeps sweeps
 * from its segment, and the cuts that follow its adoption list it, since the oldest kept cut does
 * not name it yet ([[lateIn]]).
 *
 * @param margin
 *   how many epochs a base may be behind the one whose cut is the first to name it, without having
 *   been announced
 */
final private[cleancut] class BaseLedger(val margin: Long) {
  import BaseLedger._

  private var written = Map.empty[StoreId, Written]
  private val announced = mutable.Map.empty[String, Long]
  // What is older than this has no cut that a sweep would keep.
  private var sweptTo = -1L

  /**
   * The segment of a base is about to be written, or goes on being written.
   *
   * @return
   *   whether its version is recent enough to begin with
   */
  def announce(segment: String, version: Long, last: Long, nowNs: Long): Boolean = {
    // A sweep that has begun by now may take what is older, and does not know of it.
    val isTaken = announced.contains(segment) || version >= oldest(last)
    if (isTaken) announced(segment) = nowNs + PatienceNs
    isTaken
  }

  /**
   * Whether a base that is durable may take the place of what it holds; whether its version is the
   * one that counts shows when its epoch closes.
   */
  def ack(base: PlacedFrame, last: Long, current: Option[Cut]): Ack = {
    val store = base.name.store
    val number = base.name.version.number
    val known = written.get(store).map(_.base)
    val isKnown = known.contains(base) || current.flatMap(_.of(store)).exists(isNamed(base, _))
    val isAnnounced = announced.remove(base.place.segment).isDefined
    if (isKnown) Ack.Duplicate
    else if (!isAnnounced && number < oldest(last)) Ack.Discarded(s"it is of epoch ${number - 1}")
    else if (known.exists(_.name.version.number > number)) Ack.Discarded("there is a newer one")
    else {
      written += store -> Written(base, last)
      Ack.Accepted
    }
  }

  /**
   * A function that gives the chain of a store with a base in the place of what that holds, by the
   * bases that there are now. It may be called without the lock of the coordinator.
   */
  def withBases: StoreCut => StoreCut = {
    val bases = written
    store => bases.get(store.store).fold(store)(known => adopting(store, known.base))
  }

  /** An epoch is committed; a base that no cut has adopted for long is given up. */
  def advance(done: Cut): Unit =
    written = written.filter { case (store, known) =>
      done.epoch - known.since < margin && !done.of(store).exists(isNamed(known.base, _))
    }

  /**
   * A function that gives the late bases that the cut of an epoch has to list, with its stores:
   * those that it is the first to name, and those of the cut before it that some cut may still
   * need. It may be called without the lock of the coordinator.
   */
  def lateIn(epoch: Long, before: Option[Cut]): Seq[StoreCut] => Seq[LateBase] = {
    val listed = before.toSeq.flatMap(_.late).filter(_.since > sweptTo)
    stores =>
      val first = stores.filter { of =>
        val chain = PackedChain.of(of.frames)
        chain.base.exists(_ < oldest(epoch - 1)) &&
        CutWindow.isNewBase(chain, before.flatMap(_.of(of.store)))
      }
      listed ++ first.map(of => LateBase(of.frames.head._3.segment, epoch))
  }

  /**
   * The segments that a sweep has to leave alone which keeps the cuts from `oldest` on, whatever
   * these name. An announcement that has not been renewed for long is void from now on.
   */
  def spared(oldest: Long, last: Option[Cut], nowNs: Long): Set[String] = {
    announced.filterInPlace { case (_, untilNs) => untilNs - nowNs > 0 }
    announced.keySet.toSet ++ written.values.map(_.base.place.segment) ++
      last.toSeq.flatMap(_.spared(oldest))
  }

  /** Whether a cut from before this epoch may be kept, so that it decides in a sweep. */
  def mayKeepBefore(since: Long): Boolean = since > sweptTo

  /** Where the bases lie that a cut may adopt. */
  def segments: Set[String] = written.values.map(_.base.place.segment).toSet

  /** No cut before `oldest` is kept any more. */
  def swept(oldest: Long): Unit = sweptTo = Math.max(sweptTo, oldest)

  private def oldest(last: Long): Long = last + 2 - margin
}

private[cleancut] object BaseLedger {

  /** How long an announcement holds; a writer renews it far more often. */
  val PatienceNs: Long = TimeUnit.MINUTES.toNanos(30)

  /** @param since the last epoch that was committed when it was accepted */
  final private case class Written(base: PlacedFrame, since: Long)

  private def adopting(store: StoreCut, base: PlacedFrame): StoreCut = {
    val at = (base.name.version.number - store.frames.head._2.number).toInt
    // A cut that has named one already goes on with that: its frames are read in any order.
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
