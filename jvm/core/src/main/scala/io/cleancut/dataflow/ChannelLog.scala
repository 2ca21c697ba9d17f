package io.cleancut.dataflow

import io.cleancut.base.Clock
import io.cleancut.error.Errors

/**
 * What a channel holds for one reader: the epochs after the last that it has read, in their order
 * and without a gap, because each says which one it comes after. So a reader finds out by itself
 * that its sender has gone back, whatever anybody has told it.
 *
 * A look asks for the next number, which is one small request. Numbers may be missing, since an act
 * on the sender's checkpoint uses one up; so all are listed at first, and now and then.
 *
 * A run of the sender from before a rollback can publish late. Its epochs do not count by the
 * operations that the sender has recorded in the channel. These are read with each listing that
 * finds epochs, and if an epoch does not follow the one before it.
 *
 * Not safe for several threads.
 *
 * @param pollMs
 *   the store is not asked more often than this
 * @param listMs
 *   nor for a listing more often than this
 */
final class ChannelLog(records: ChannelRecords, clock: Clock, pollMs: Long, listMs: Long) {
  import ChannelLog._

  private var pending = Vector.empty[SentEpoch]
  private var nextLook = Long.MinValue
  private var nextList = Long.MinValue

  /**
   * The epochs after one, as far as they were seen by now; more may be there.
   *
   * @param last
   *   the last that was read; None begins with the oldest that there is
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHANNEL_ROLLED_BACK, the sender has, behind what was read; CLEANCUT_CHANNEL_EXPIRED,
   *   what comes next is gone; what [[SentEpoch.parse]] throws
   */
  def after(last: Option[EpochMark]): Vector[SentEpoch] = {
    pending = pending.dropWhile(of => last.exists(of.epoch <= _.epoch))
    // What was seen before, of a sender that went back, is looked for anew.
    if (last.nonEmpty && pending.headOption.exists(_.after != last)) forget()
    val now = millis()
    if (now >= nextLook) {
      nextLook = now + pollMs
      look(last, now)
    }
    pending
  }

  /** What of that was seen already, without another look. */
  def seenAfter(last: Option[EpochMark]): Vector[SentEpoch] =
    pending.dropWhile(of => last.exists(of.epoch <= _.epoch))

  /** Has the next look list all that there is, however soon it comes. */
  def lookAgain(): Unit = {
    nextLook = Long.MinValue
    nextList = Long.MinValue
  }

  /**
   * The epochs of a batch that is run, which may be one of an earlier run.
   *
   * @param from
   *   the last epoch before it; None for the first batch
   * @param to
   *   its last epoch
   * @throws io.cleancut.error.CleancutException
   *   as [[after]]
   */
  def between(from: Option[EpochMark], to: EpochMark): Vector[SentEpoch] =
    known(from, to).getOrElse {
      val numbers = numbersAfter(from)
      val found = chained(from, counted(numbers.filter(_ <= to.epoch).flatMap(read)))
      if (!found.lastOption.exists(_.mark == to)) {
        val next = counted(numbers.filter(_ >= to.epoch).take(MaxAhead).flatMap(read))
        throw gone(to, next.headOption)
      }
      found
    }

  /** The same, where it was seen before. */
  def known(from: Option[EpochMark], to: EpochMark): Option[Vector[SentEpoch]] = {
    val seen = pending.takeWhile(_.epoch <= to.epoch)
    val isKnown = seen.lastOption.exists(_.mark == to) &&
      from.forall(mark => seen.head.after.contains(mark))
    Option.when(isKnown)(seen)
  }

  private def look(last: Option[EpochMark], now: Long): Unit =
    if (now >= nextList) {
      nextList = now + listMs
      val numbers = numbersAfter(last)
      // What was taken back meanwhile is not to be read.
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
    val found = if (isChained(tip, read)) read else counted(read)
    val fits = tip.isEmpty || found.headOption.forall(_.after == tip)
    if (fits) pending = pending ++ chained(tip, found)
    // The sender went back behind what was seen, and perhaps not behind what was read.
    else if (pending.nonEmpty) {
      forget()
      append(last, counted(numbersAfter(last).take(MaxAhead).flatMap(this.read)))
    } else chained(tip, found): Unit
  }

  private def forget(): Unit = {
    pending = Vector.empty
    lookAgain()
  }

  /**
   * The epochs that count by the recorded operations, or that were shown again by hand.
   *
   * @param epochs
   *   which have to be read before this call: a run of the sender records the operations before it
   *   publishes
   */
  private def counted(epochs: Seq[SentEpoch]): Seq[SentEpoch] = {
    val operations = if (epochs.isEmpty) Seq.empty else OwnChannel.recorded(records)
    val late = epochs.filterNot(of => OwnChannel.counts(of.epoch, Long.MaxValue, operations)).toSet
    val shown =
      if (late.isEmpty) Set.empty[EpochMark]
      else ChannelLayout.attemptsIn(records.names(ChannelLayout.GivenBack)).toSet
    epochs.filter(of => !late(of) || shown(of.mark))
  }

  private def isChained(from: Option[EpochMark], epochs: Seq[SentEpoch]): Boolean = {
    val before = from.orElse(epochs.headOption.flatMap(_.after)) +: epochs.map(of => Some(of.mark))
    epochs.zip(before).forall { case (of, mark) => of.after == mark }
  }

  /** Each comes after the one before it. */
  private def chained(from: Option[EpochMark], epochs: Seq[SentEpoch]): Vector[SentEpoch] = {
    var tip = from
    epochs.foreach { of =>
      if (tip.nonEmpty && of.after != tip) {
        val read = tip.get
        if (of.after.exists(_.epoch > read.epoch))
          throw Errors.channelExpired(records.location, read.epoch, of.after.get.epoch)
        throw wentBack(of, read)
      }
      tip = Some(of.mark)
    }
    epochs.toVector
  }

  /** @param next what is there in the place of an epoch, or after it */
  private def gone(to: EpochMark, next: Option[SentEpoch]) = next match {
    case Some(of) if of.epoch == to.epoch =>
      Errors.channelRolledBack(
        records.location,
        of.sender,
        to.epoch,
        of.epoch,
        "another attempt of it"
      )
    case Some(of) if of.after.forall(_.epoch < to.epoch) => wentBack(of, to)
    case _ => Errors.channelExpired(records.location, to.epoch - 1, to.epoch)
  }

  private def wentBack(of: SentEpoch, read: EpochMark) = {
    val before = of.after.fold("no epoch")(mark => s"epoch ${mark.epoch}")
    Errors.channelRolledBack(records.location, of.sender, read.epoch, of.epoch, before)
  }

  /** The numbers of what is published after an epoch, and counts. */
  private def numbersAfter(after: Option[EpochMark]): Seq[Long] = {
    val numbers = ChannelLayout.numbersIn(records.names(ChannelLayout.Epochs))
    val bound = after.fold(expiredUntil())(_.epoch)
    numbers.dropWhile(_ <= bound)
  }

  /** Manifests of expired epochs stay for those who read them, and are nothing to begin with. */
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

  /** So that a reader that is far behind begins to read soon. */
  private val MaxAhead = 1000

  /** A published epoch; None if there is none of that number. */
  def read(records: ChannelRecords, epoch: Long): Option[SentEpoch] = {
    val name = ChannelLayout.manifest(epoch)
    records.read(name).map(SentEpoch.parse(_, s"${records.location}/$name", epoch))
  }

  /** The newest epoch that is published, if any is. */
  def newest(records: ChannelRecords): Option[SentEpoch] =
    ChannelLayout
      .numbersIn(records.names(ChannelLayout.Epochs))
      .reverseIterator
      .map(read(records, _))
      .collectFirst { case Some(of) => of }

  /**
   * Notes that a query reads the channel, before it does: what no reader needs is deleted.
   *
   * @param source
   *   the number of the source in the query
   * @param checkpoint
   *   where the query's checkpoint lies
   */
  def register(
      records: ChannelRecords,
      queryId: String,
      source: String,
      checkpoint: String
  ): Unit = {
    val name = ChannelLayout.reader(queryId, source)
    val note = ChannelLayout.readerNote(queryId, source, checkpoint)
    // A checkpoint may have been moved since the query last ran.
    if (!records.read(name).exists(java.util.Arrays.equals(_, note))) records.replace(name, note)
  }
}
