package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, PackedChain, PlacedFrame, StoreCut, StoreOrder}
import io.cleancut.format.cut.{ChannelReport, Cut, LateBase, Referred, SealedFrame, SinkEpochs}
import io.cleancut.protocol._

/**
 * What the coordinator of one run knows: the last cut, the epoch behind it, and the bases that
 * maintenance writes. Pure, as [[EpochLedger]] is.
 *
 * @param committed
 *   the last epoch that is committed; -1 before the first
 * @param cut
 *   of that epoch; none where the epochs so far have been written without group commit
 * @param baseMargin
 *   how many epochs a base may be behind the one whose cut is the first to name it
 * @param seal
 *   under which an earlier run may have let the sink of the next epoch write
 * @param uncut
 *   the epochs that sinks have published, where there is no cut
 */
final class QueryLedger(
    committed: Long,
    cut: Option[Cut],
    baseMargin: Long = QueryLedger.BaseMargin,
    seal: Option[Cut] = None,
    uncut: SinkEpochs = SinkEpochs.Empty
) {

  private var last = committed
  private var current = cut
  private var pending = new EpochLedger(
    last + 1,
    current,
    channels = new EpochChannels(seal.toSeq.flatMap(Decision.sealedIn))
  )

  /** What maintenance writes beside the epochs. */
  val bases = new BaseLedger(baseMargin)

  /** Of the segments that the next cut may name. */
  val ends = new SegmentEnds

  private var known = CutWindow.after(cut)
  private var turned = Option.empty[WrittenPages]
  private var offline = Option.empty[ReplacedEpoch]
  private var sinksBefore = cut.fold(uncut)(_.sinks)
  // Sinks that have published an epoch, which has no cut yet.
  private var publishers = Map.empty[Long, Set[String]]

  /** What the last cut names in the place of chains. */
  def window: CutWindow = known

  def lastCommitted: Long = last

  def lastCut: Option[Cut] = current

  /** The epoch that is under way. */
  def epoch: EpochLedger = pending

  /**
   * An epoch makes all of the state anew, and has these stores in the place of those before.
   * Whoever says so writes the whole of each.
   *
   * @param epoch
   *   the next, or a later one: those before it will have no cut
   * @param sinks
   *   the published epochs that count after it
   */
  def replace(epoch: Long, stores: Set[StoreId], sinks: SinkEpochs = SinkEpochs.Empty): Unit = {
    require(epoch > last, s"epoch $epoch is closed, the last is $last")
    last = epoch - 1
    pending = new EpochLedger(epoch, None, further = stores)
    // What pages and earlier epochs have is of no use any more, also of stores that stay.
    known = CutWindow.after(None)
    turned = None
    offline = Some(ReplacedEpoch())
    sinksBefore = sinks
  }

  /** The epochs that sinks have published, up to the last that is committed. */
  def sinks: SinkEpochs = sinksBefore

  /** Sinks have published the epoch that is under way. */
  def published(epoch: Long, sinks: Set[String]): Unit =
    publishers = publishers.updated(epoch, publishers.getOrElse(epoch, Set.empty) ++ sinks)

  /** The epochs that sinks have published, up to the one that is under way. */
  def sinksAfter(epoch: Long): SinkEpochs =
    sinksBefore.published(publishers.getOrElse(epoch, Set.empty), epoch)

  /** The operation that makes the epoch under way, which is not made of the last cut then. */
  def operation: Option[ReplacedEpoch] = offline

  /** The operation has made something durable. */
  def operate(change: ReplacedEpoch => ReplacedEpoch): Unit = offline = offline.map(change)

  /** A task attempt opens a store at a version, which is the epoch's number. */
  def open(attempt: Long, store: StoreId, version: Long): Either[Refusal, Opened] =
    if (version != last + 1) Left(notOpen(version))
    else {
      pending.open(attempt, store)
      val known = current.flatMap(_.of(store))
      // In-flight rows of the last cut, and those that an earlier attempt or run has deferred.
      val stored =
        if (offline.isDefined) Nil
        else
          current.toSeq
            .flatMap(_.ofTask(store.operator, store.partition))
            .map(_.store)
            .filter(Channels.isChannel)
      val deferred = pending.channels.deferredOf(store.operatorPartition)
      val unread =
        if (stored.isEmpty && deferred.isEmpty) Nil
        else
          (stored ++ deferred).distinct
            .filterNot(pending.channels.hasOpened(attempt, _))
            .sorted(StoreOrder)
      Right(Opened(known.map(_.version.id), needsBase = version > 0 && known.isEmpty, unread))
    }

  /** What a task opens beside the stores that it names: what the last cut has of it. */
  def beside(operator: Long, partition: Int): Seq[StoreId] =
    if (offline.isDefined) Nil
    else
      current.toSeq
        .flatMap(_.ofTask(operator, partition))
        .map(_.store)
        .filterNot(Channels.isChannel)

  /** A task attempt begins to read a channel. */
  def openChannel(task: ChannelTask, mayDefer: Boolean): Either[Refusal, Option[StoreCut]] =
    if (task.epoch != last + 1) Left(notOpen(task.epoch))
    else {
      val channel = task.channel
      val follows = pending.channels.decision(channel).isDefined
      pending.channels.open(task.attempt, channel, mayDefer || follows)
      Right(current.flatMap(_.of(channel)))
    }

  /** The channels that held rows when the last epoch was committed. */
  def inFlight: Seq[StoreCut] = current.toSeq.flatMap(_.inFlight)

  /** The id of the version that counts, for one who reads it. */
  def accepted(store: StoreId, version: Long): Option[String] =
    chain(store, version).map(_.version.id)

  /** What made a version, if that is the version of the last cut, or of what is settled. */
  def chain(store: StoreId, version: Long): Option[StoreCut] =
    if (version == last + 2) offline.flatMap(_.settled.get(store))
    else current.filter(_.epoch == version - 1).flatMap(_.of(store))

  def fail(attempt: Long): Unit = pending.fail(attempt)

  def ack(frame: PlacedFrame): Ack = {
    ends.note(frame)
    val epoch = frame.name.version.number - 1
    if (frame.attempt == SealedFrame.Maintenance) ackBase(frame, epoch)
    else if (epoch == last + 1) pending.ack(frame)
    else Ack.Unknown(notOpen(epoch))
  }

  /** The driver holds a frame of the epoch that is under way. */
  def hold(frame: SealedFrame): Ack = {
    val epoch = frame.name.version.number - 1
    if (epoch == last + 1) pending.hold(frame.attempt, frame.name)
    else Ack.Unknown(notOpen(epoch))
  }

  /**
   * A function that closes the epoch with the versions that Spark counted, if its commit entry
   * names them, by what is known now. It may be called without the lock of the coordinator.
   */
  def closing(epoch: Long): Option[Set[String]] => Either[Set[StoreId], Seq[StoreCut]] = {
    require(epoch > last, s"epoch $epoch is closed, the last is $last")
    val ledger = if (epoch == pending.epoch) pending else new EpochLedger(epoch, current)
    val inFlight =
      offline.filter(_ => ledger eq pending).flatMap(_.inFlight).toSeq.flatMap(_.channels)
    val known = ledger.closing
    val withBases = bases.withBases
    counted =>
      known.close(counted).map(_.map(withBases)).map { stores =>
        if (inFlight.isEmpty) stores else (stores ++ inFlight).sortBy(_.store)(StoreOrder)
      }
  }

  def close(epoch: Long, counted: Option[Set[String]]): Either[Set[StoreId], Seq[StoreCut]] =
    closing(epoch)(counted)

  /** The epoch is committed with this cut, which has all its chains. */
  def advance(done: Cut): Unit = {
    last = done.epoch
    current = Some(done)
    offline = None
    sinksBefore = done.sinks
    publishers = publishers.filter(_._1 > last)
    pending = new EpochLedger(last + 1, current)
    bases.advance(done)
    known = CutWindow.after(current)
    ends.keepOnly(bases.segments)
  }

  /** Pages are written, which the next cut names. */
  def turned(pages: WrittenPages): Unit = turned = Some(pages)

  /**
   * The window before the epoch under way, with the pages that have been written since; and the
   * chains in these whose frames have got other places.
   */
  def turn(): (CutWindow, Map[StoreId, PackedChain]) = {
    val all = turned.fold(known)(known.turned(_, last + 1 - bases.margin))
    val moved = turned.filter(_ => all ne known).fold(Map.empty[StoreId, PackedChain])(_.moved)
    turned = None
    known = all
    (all, moved)
  }

  /** The late bases that the cut of the epoch under way has to list, with its stores. */
  def late: Seq[StoreCut] => Seq[LateBase] = bases.lateIn(last + 1, current)

  /**
   * What the cut of the epoch under way has to list as referred to, with these stores: what one of
   * them begins with, and what a cut that is still kept may begin with, as the oldest of these may
   * be from before.
   */
  def referredIn(stores: Seq[StoreCut]): Seq[Referred] = {
    val known = current.toSeq.flatMap(_.referred)
    lazy val begun = stores.iterator.flatMap(of => PackedChain.of(of.frames).base).toSet
    known.filter(of => bases.mayKeepBefore(of.since) || begun(of.version)) ++
      offline.flatMap(_.referred)
  }

  /** The segments that a sweep leaves alone which keeps the cuts from `oldest` on. */
  def spared(oldest: Long, nowNs: Long): Set[String] = bases.spared(oldest, current, nowNs)

  /** Maintenance is about to write a base of a version to a segment of its own, or goes on to. */
  def announce(segment: String, version: Long, nowNs: Long): Either[Refusal, Unit] =
    if (version > last + 2) Left(notOpen(version - 1))
    else {
      val isTaken = bases.announce(segment, version, last, nowNs)
      Either.cond(isTaken, (), Refusal.Failed(s"version $version is old"))
    }

  /** Maintenance writes a base of a version that a task left in memory. */
  private def ackBase(frame: PlacedFrame, epoch: Long): Ack =
    if (epoch > last + 1) Ack.Unknown(notOpen(epoch))
    else if (frame.name.kind != FrameKind.Base) Ack.Discarded("no task wrote it, and it is no base")
    else bases.ack(frame, last, current)

  private def notOpen(epoch: Long) = Refusal.NotOpen(epoch, last)
}

/**
 * Rows in flight that an epoch has from an earlier cut, and not from tasks.
 *
 * @param channels
 *   each with the one frame that holds its rows
 * @param reports
 *   what was decided of them
 */
final private[coordinator] case class TakenAlong(
    channels: Seq[StoreCut],
    reports: Seq[ChannelReport]
)

/**
 * What an offline operation has made durable of its epoch.
 *
 * @param inFlight
 *   the in-flight rows that the epoch keeps
 * @param referred
 *   the segments that its bases refer to
 * @param settled
 *   its stores, which may be read before the commit
 */
final private[cleancut] case class ReplacedEpoch(
    inFlight: Option[TakenAlong] = None,
    referred: Option[Referred] = None,
    settled: Map[StoreId, StoreCut] = Map.empty
)

object QueryLedger {

  val BaseMargin: Long = 20L
}

/**
 * @param accepted
 *   the id of the version that counts
 * @param needsBase
 *   whether the store's history is unknown to the cuts, so that it must write all of its state
 * @param unread
 *   channels that hold rows for the task, and that its plan does not read
 * @param sealedAs
 *   of an epoch that is finished from its seal: the version that counts in place of the one that
 *   the task makes
 */
final case class Opened(
    accepted: Option[String],
    needsBase: Boolean,
    unread: Seq[StoreId] = Nil,
    sealedAs: Option[StoreCut] = None
)
