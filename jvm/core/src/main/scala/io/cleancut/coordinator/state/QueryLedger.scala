package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, PackedChain, PlacedFrame, StoreCut, StoreOrder}
import io.cleancut.format.cut.{ChannelReport, Cut, LateBase, Referred, SealedFrame, SinkEpochs}
import io.cleancut.protocol._

/**
 * The knowledge of one run's coordinator: the last cut, the epoch after it, and the bases of
 * background maintenance. Pure, as [[EpochLedger]] is.
 *
 * @param committed
 *   last committed epoch; -1 before the first
 * @param cut
 *   its cut; None if the epochs so far were written without cuts
 * @param baseMargin
 *   largest number of epochs between a base and the first cut that references it
 * @param seal
 *   seal of an earlier run for the next epoch, after which its sink may have published
 * @param uncut
 *   published epochs of sinks, if there is no cut
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
  // Whether other runs read the last cut as well.
  private var isStored = true
  private var pending = new EpochLedger(
    last + 1,
    current,
    channels = new EpochChannels(seal.toSeq.flatMap(Decision.sealedIn))
  )

  /** Bases that maintenance writes concurrently with epochs. */
  val bases = new BaseLedger(baseMargin)

  /** Segments that the next cut may reference. */
  val ends = new SegmentEnds

  private var known = CutWindow.after(cut)
  private var turned = Option.empty[WrittenPages]
  // Pages of earlier epochs have the chains of a state that an operation has replaced.
  private var pagesFrom = Long.MinValue
  private var offline = Option.empty[ReplacedEpoch]
  private var sinksBefore = cut.fold(uncut)(_.sinks)
  // Sinks that have published an epoch without a cut so far.
  private var publishers = Map.empty[Long, Set[String]]

  /** The references of the last cut. */
  def window: CutWindow = known

  def lastCommitted: Long = last

  def lastCut: Option[Cut] = current

  /** The current epoch. */
  def epoch: EpochLedger = pending

  /**
   * Declares that an epoch replaces the complete state with exactly these stores. The caller writes
   * each of them completely.
   *
   * @param epoch
   *   the next epoch, or a later one; epochs in between have no cut
   * @param sinks
   *   published epochs that count after it
   */
  def replace(epoch: Long, stores: Set[StoreId], sinks: SinkEpochs = SinkEpochs.Empty): Unit = {
    require(epoch > last, s"epoch $epoch is closed, the last is $last")
    last = epoch - 1
    pending = new EpochLedger(epoch, None, further = stores)
    // Pages and frames of earlier epochs are unused, also those of stores that remain.
    known = CutWindow.after(None)
    turned = None
    pagesFrom = epoch
    offline = Some(ReplacedEpoch())
    sinksBefore = sinks
  }

  /**
   * Discards the operation of the next epoch, of which neither log has an entry. The epoch is again
   * one of the query, based on the last cut.
   */
  def cancelReplacement(): Unit = if (offline.isDefined) {
    pending = new EpochLedger(last + 1, current)
    known = CutWindow.after(current)
    offline = None
    sinksBefore = current.fold(uncut)(_.sinks)
  }

  /** The published epochs of sinks, up to the last committed epoch. */
  def sinks: SinkEpochs = sinksBefore

  /** Sinks have published the current epoch. */
  def published(epoch: Long, sinks: Set[String]): Unit =
    publishers = publishers.updated(epoch, publishers.getOrElse(epoch, Set.empty) ++ sinks)

  /** The published epochs of sinks, up to the current epoch. */
  def sinksAfter(epoch: Long): SinkEpochs =
    sinksBefore.published(publishers.getOrElse(epoch, Set.empty), epoch)

  /** The operation of the current epoch, which is not based on the last cut then. */
  def operation: Option[ReplacedEpoch] = offline

  /** Records frames that the operation has made durable. */
  def operate(change: ReplacedEpoch => ReplacedEpoch): Unit = offline = offline.map(change)

  /** A task attempt opens a store at a version, which is the epoch's number. */
  def open(attempt: Long, store: StoreId, version: Long): Either[Refusal, Opened] =
    if (version != last + 1) Left(notOpen(version))
    else {
      pending.open(attempt, store)
      val known = current.flatMap(_.of(store))
      // In-flight rows of the last cut, and rows that an earlier attempt or run has deferred.
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
      val needsBase = version > 0 && (known.isEmpty || !isStored)
      Right(Opened(known.map(_.version.id), needsBase, unread))
    }

  /**
   * Further stores that a task opens in addition to those that it names: its stores in the last
   * cut.
   */
  def storesOfTask(operator: Long, partition: Int): Seq[StoreId] =
    if (offline.isDefined) Nil
    else
      current.toSeq
        .flatMap(_.ofTask(operator, partition))
        .map(_.store)
        .filterNot(Channels.isChannel)

  /** A task attempt begins to read a shuffle input. */
  def openChannel(task: ChannelTask, mayDefer: Boolean): Either[Refusal, Option[StoreCut]] =
    if (task.epoch != last + 1) Left(notOpen(task.epoch))
    else {
      val channel = task.channel
      val follows = pending.channels.decision(channel).isDefined
      pending.channels.open(task.attempt, channel, mayDefer || follows)
      Right(current.flatMap(_.of(channel)))
    }

  /** The shuffle inputs that had in-flight rows when the last epoch was committed. */
  def inFlight: Seq[StoreCut] = current.toSeq.flatMap(_.inFlight)

  /** The ID of the version that counts, for a reader. */
  def accepted(store: StoreId, version: Long): Option[String] =
    chain(store, version).map(_.version.id)

  /** The frames of a version, if it is the version of the last cut or is settled. */
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

  /** The driver holds a frame of the current epoch. */
  def hold(frame: SealedFrame): Ack = {
    val epoch = frame.name.version.number - 1
    if (epoch == last + 1) pending.hold(frame.attempt, frame.name)
    else Ack.Unknown(notOpen(epoch))
  }

  /**
   * A function that closes the epoch from the reports so far, with the versions that Spark counted
   * if its commit entry has them. It may be called without the lock of the coordinator.
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

  /**
   * The epoch is committed with this cut, which has all its chains.
   *
   * @param isStored
   *   false if the cut of another run is stored instead. Then the next epoch writes complete state:
   *   a run that recovers it from its seal or its frames continues from the stored cut.
   */
  def advance(done: Cut, isStored: Boolean = true): Unit = {
    last = done.epoch
    current = Some(done)
    this.isStored = isStored
    offline = None
    sinksBefore = done.sinks
    publishers = publishers.filter(_._1 > last)
    pending = new EpochLedger(last + 1, current)
    bases.advance(done)
    known = CutWindow.after(current)
    ends.keepOnly(bases.segments)
  }

  /** Pages are written, which the next cut references. */
  def recordPages(pages: WrittenPages): Unit = if (pages.epoch >= pagesFrom) turned = Some(pages)

  /**
   * The window before the current epoch, with the pages that have been written since; and the
   * chains in these pages whose frames were moved.
   */
  def turn(): (CutWindow, Map[StoreId, PackedChain]) = {
    val all = turned.fold(known)(known.withPages(_, last + 1 - bases.margin))
    val moved = turned.filter(_ => all ne known).fold(Map.empty[StoreId, PackedChain])(_.moved)
    turned = None
    known = all
    (all, moved)
  }

  /** The late bases that the cut of the current epoch must list, given its stores. */
  def late: Seq[StoreCut] => Seq[LateBase] = bases.lateIn(last + 1, current)

  /**
   * The references that the cut of the current epoch must list, given its stores: those of the base
   * of one of these stores, and those of bases in retained cuts, because the oldest retained cut
   * may precede them.
   */
  def referredIn(stores: Seq[StoreCut]): Seq[Referred] = {
    val known = current.toSeq.flatMap(_.referred)
    lazy val begun = stores.iterator.flatMap(store => PackedChain.of(store.frames).base).toSet
    known.filter(reference => bases.mayKeepBefore(reference.since) || begun(reference.version)) ++
      offline.flatMap(_.referred)
  }

  /**
   * The segments that a garbage collection must not delete if it keeps the cuts from `oldest` on.
   */
  def retainedSegments(oldest: Long, nowNs: Long): Set[String] =
    bases.retainedSegments(oldest, current, nowNs)

  /** Maintenance is about to write a base of a version to a separate segment, or continues to. */
  def announce(segment: String, version: Long, nowNs: Long): Either[Refusal, Unit] =
    if (version > last + 2) Left(notOpen(version - 1))
    else {
      val isTaken = bases.announce(segment, version, last, nowNs)
      Either.cond(isTaken, (), Refusal.Failed(s"version $version is old"))
    }

  /** Maintenance has written a base of a version that a task left in memory. */
  private def ackBase(frame: PlacedFrame, epoch: Long): Ack =
    if (epoch > last + 1) Ack.Unknown(notOpen(epoch))
    else if (frame.name.kind != FrameKind.Base)
      Ack.Discarded("no task wrote it, and it is not a base")
    else bases.ack(frame, last, current)

  private def notOpen(epoch: Long) = Refusal.NotOpen(epoch, last)
}

/**
 * In-flight rows that an epoch has from an earlier cut, and not from tasks.
 *
 * @param channels
 *   shuffle inputs, each with the frame of its rows
 * @param reports
 *   decisions on these rows
 */
final private[coordinator] case class CarriedInFlight(
    channels: Seq[StoreCut],
    reports: Seq[ChannelReport]
)

/**
 * The durable parts of an offline operation's epoch.
 *
 * @param inFlight
 *   in-flight rows that the epoch keeps
 * @param referred
 *   segments that its bases reference
 * @param settled
 *   its stores, which may be read before the commit
 */
final private[cleancut] case class ReplacedEpoch(
    inFlight: Option[CarriedInFlight] = None,
    referred: Option[Referred] = None,
    settled: Map[StoreId, StoreCut] = Map.empty
)

object QueryLedger {

  val BaseMargin: Long = 20L
}

/**
 * The answer to the open of a store.
 *
 * @param accepted
 *   ID of the version that counts
 * @param needsBase
 *   whether the cuts do not know the store's history, so that it must write its complete state
 * @param unread
 *   shuffle inputs that have rows for the task, and that its plan does not read
 * @param sealedChain
 *   in an epoch that is finished from its seal, the version that counts instead of the version that
 *   the task creates
 * @param mayDeferBase
 *   whether an overdue base is left to maintenance, so that the first epoch is short
 */
final case class Opened(
    accepted: Option[String],
    needsBase: Boolean,
    unread: Seq[StoreId] = Nil,
    sealedChain: Option[StoreCut] = None,
    mayDeferBase: Boolean = false
)
