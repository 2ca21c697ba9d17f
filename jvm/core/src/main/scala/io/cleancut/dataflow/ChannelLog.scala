package io.cleancut.dataflow

import io.cleancut.base.Clock
import io.cleancut.error.Errors

/**
 * The epochs of a channel for one reader: those after the last one that it has read, in order and
 * without a gap, because each names its predecessor. So a reader itself detects that its sender was
 * rolled back.
 *
 * A poll requests the next number, which is one small request. Numbers may be missing, because an
 * operation on the sender's checkpoint uses one; so all are listed at first, and periodically.
 *
 * A run of the sender from before a rollback can publish late. Its epochs do not count according to
 * the operations that the sender has recorded in the channel. These are read with each listing that
 * finds epochs, and if an epoch does not follow its predecessor.
 *
 * Not thread-safe.
 *
 * @param pollMs
 *   shortest time between two polls
 * @param listMs
 *   shortest time between two list requests
 */
final class ChannelLog(records: ChannelRecords, clock: Clock, pollMs: Long, listMs: Long) {
  import ChannelLog._

  private var pending = Vector.empty[SentEpoch]
  private var nextLook = Long.MinValue
  private var nextList = Long.MinValue

  /**
   * The known epochs after one; more may exist.
   *
   * @param last
   *   last epoch that was read; None begins with the oldest one
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHANNEL_ROLLED_BACK if the sender was rolled back to before `last`;
   *   CLEANCUT_CHANNEL_EXPIRED if the next epoch is missing; errors of [[SentEpoch.parse]]
   */
  def after(last: Option[EpochMark]): Vector[SentEpoch] = {
    pending = pending.dropWhile(epoch => last.exists(epoch.epoch <= _.epoch))
    // Cached epochs of a sender that was rolled back are read again.
    if (last.nonEmpty && pending.headOption.exists(_.after != last)) forget()
    val now = millis()
    if (now >= nextLook) {
      nextLook = now + pollMs
      poll(last, now)
    }
    pending
  }

  /** The cached epochs after one, without a poll. */
  def seenAfter(last: Option[EpochMark]): Vector[SentEpoch] =
    pending.dropWhile(epoch => last.exists(epoch.epoch <= _.epoch))

  /** Makes the next poll list all epochs, without waiting. */
  def refresh(): Unit = {
    nextLook = Long.MinValue
    nextList = Long.MinValue
  }

  /**
   * The epochs of a batch, which may be a batch of an earlier run.
   *
   * @param from
   *   last epoch before it; None for the first batch
   * @param to
   *   its last epoch
   * @throws io.cleancut.error.CleancutException
   *   as [[after]]
   */
  def between(from: Option[EpochMark], to: EpochMark): Vector[SentEpoch] =
    known(from, to).getOrElse {
      val numbers = numbersAfter(from)
      val epochs = chained(from, counted(numbers.filter(_ <= to.epoch).flatMap(read)))
      if (!epochs.lastOption.exists(_.mark == to)) {
        val next = counted(numbers.filter(_ >= to.epoch).take(MaxAhead).flatMap(read))
        throw gone(to, next.headOption)
      }
      epochs
    }

  /** The same from the cache, if it has all epochs. */
  def known(from: Option[EpochMark], to: EpochMark): Option[Vector[SentEpoch]] = {
    val seen = pending.takeWhile(_.epoch <= to.epoch)
    val isKnown = seen.lastOption.exists(_.mark == to) &&
      from.forall(mark => seen.head.after.contains(mark))
    Option.when(isKnown)(seen)
  }

  private def poll(last: Option[EpochMark], now: Long): Unit =
    if (now >= nextList) {
      nextList = now + listMs
      val numbers = numbersAfter(last)
      // Epochs that were hidden meanwhile must not be read.
      if (pending.map(_.epoch).diff(numbers).nonEmpty) pending = Vector.empty
      val next = numbers.filter(number => pending.lastOption.forall(_.epoch < number))
      append(last, counted(next.take(MaxAhead).flatMap(read)))
    } else {
      val tip = pending.lastOption.map(_.mark).orElse(last)
      val next = Iterator.iterate(tip.fold(0L)(_.epoch + 1))(_ + 1).map(read)
      append(last, next.takeWhile(_.nonEmpty).flatten.take(MaxAhead).toSeq)
    }

  private def append(last: Option[EpochMark], read: Seq[SentEpoch]): Unit = {
    val tip = pending.lastOption.map(_.mark).orElse(last)
    val counting = if (isChained(tip, read)) read else counted(read)
    val fits = tip.isEmpty || counting.headOption.forall(_.after == tip)
    if (fits) pending = pending ++ chained(tip, counting)
    // The sender was rolled back to before the cached epochs, and perhaps after the epochs that
    // were read.
    else if (pending.nonEmpty) {
      forget()
      append(last, counted(numbersAfter(last).take(MaxAhead).flatMap(this.read)))
    } else chained(tip, counting): Unit
  }

  private def forget(): Unit = {
    pending = Vector.empty
    refresh()
  }

  /**
   * The epochs that count by the recorded operations, or that were unhidden manually.
   *
   * @param epochs
   *   must be read before this call: a run of the sender records the operations before it publishes
   */
  private def counted(epochs: Seq[SentEpoch]): Seq[SentEpoch] = {
    val operations = if (epochs.isEmpty) Seq.empty else OwnChannel.recorded(records)
    val late =
      epochs.filterNot(epoch => OwnChannel.counts(epoch.epoch, Long.MaxValue, operations)).toSet
    val shown =
      if (late.isEmpty) Set.empty[EpochMark]
      else ChannelLayout.attemptsIn(records.names(ChannelLayout.GivenBack)).toSet
    epochs.filter(epoch => !late(epoch) || shown(epoch.mark))
  }

  private def isChained(from: Option[EpochMark], epochs: Seq[SentEpoch]): Boolean = {
    val before =
      from.orElse(epochs.headOption.flatMap(_.after)) +: epochs.map(epoch => Some(epoch.mark))
    epochs.zip(before).forall { case (epoch, mark) => epoch.after == mark }
  }

  /** Checks that each follows its predecessor. */
  private def chained(from: Option[EpochMark], epochs: Seq[SentEpoch]): Vector[SentEpoch] = {
    var tip = from
    epochs.foreach { epoch =>
      if (tip.nonEmpty && epoch.after != tip) {
        val read = tip.get
        if (epoch.after.exists(_.epoch > read.epoch))
          throw Errors.channelExpired(records.location, read.epoch, epoch.after.get.epoch)
        throw rolledBack(epoch, read)
      }
      tip = Some(epoch.mark)
    }
    epochs.toVector
  }

  /** @param next epoch that exists instead of `to`, or after it */
  private def gone(to: EpochMark, next: Option[SentEpoch]) = next match {
    case Some(epoch) if epoch.epoch == to.epoch =>
      Errors.channelRolledBack(
        records.location,
        epoch.sender,
        to.epoch,
        epoch.epoch,
        "another attempt"
      )
    case Some(epoch) if epoch.after.forall(_.epoch < to.epoch) => rolledBack(epoch, to)
    case _ => Errors.channelExpired(records.location, to.epoch - 1, to.epoch)
  }

  private def rolledBack(epoch: SentEpoch, read: EpochMark) = {
    val before = epoch.after.fold("no epoch")(mark => s"epoch ${mark.epoch}")
    Errors.channelRolledBack(records.location, epoch.sender, read.epoch, epoch.epoch, before)
  }

  /** The numbers of published epochs after one that count. */
  private def numbersAfter(after: Option[EpochMark]): Seq[Long] = {
    val numbers = ChannelLayout.numbersIn(records.names(ChannelLayout.Epochs))
    val bound = after.fold(expiredUntil())(_.epoch)
    numbers.dropWhile(_ <= bound)
  }

  /**
   * Manifests of expired epochs stay for current readers, but a new reader does not begin with
   * them.
   */
  private def expiredUntil(): Long =
    ChannelLayout
      .numbersIn(records.names(ChannelLayout.Expired))
      .lastOption
      .flatMap(number => records.read(ChannelLayout.expiry(number)))
      .flatMap(ChannelLayout.untilIn)
      .getOrElse(-1L)

  private def read(epoch: Long): Option[SentEpoch] = ChannelLog.read(records, epoch)

  private def millis(): Long = clock.monotonicNs() / 1000000
}

object ChannelLog {

  /** Limit of epochs per poll, so that a reader with a large lag begins soon. */
  private val MaxAhead = 1000

  /** A published epoch; None if it does not exist. */
  def read(records: ChannelRecords, epoch: Long): Option[SentEpoch] = {
    val name = ChannelLayout.manifest(epoch)
    records.read(name).map(SentEpoch.parse(_, s"${records.location}/$name", epoch))
  }

  /** The newest published epoch, if any. */
  def newest(records: ChannelRecords): Option[SentEpoch] =
    ChannelLayout
      .numbersIn(records.names(ChannelLayout.Epochs))
      .reverseIterator
      .map(read(records, _))
      .collectFirst { case Some(epoch) => epoch }

  /**
   * Registers a query as a reader of the channel before it reads: epochs that no reader requires
   * are deleted.
   *
   * @param source
   *   index of the source in the query
   * @param checkpoint
   *   location of the query's checkpoint
   */
  def register(
      records: ChannelRecords,
      queryId: String,
      source: String,
      checkpoint: String
  ): Unit = {
    val name = ChannelLayout.reader(queryId, source)
    val note = ChannelLayout.readerNote(queryId, source, checkpoint)
    // The checkpoint may have been moved since the query last ran.
    if (!records.read(name).exists(java.util.Arrays.equals(_, note))) records.replace(name, note)
  }
}
