package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.base.{OperatorPartition, StoreId}
import io.cleancut.format.FrameName
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut}

/**
 * The channels of one epoch that is not committed yet: which attempts read them, and what has been
 * decided of them. Pure.
 *
 * Which rows stay in flight is decided by the first attempt at a task whose frames outlive their
 * executor, since what that attempt handed on may be cached by then. Later ones are told the
 * decision and repeat it. Where an attempt has begun that may leave none, because its rows may be
 * seen before the sink seals, no later one may either.
 *
 * @param sealedBefore
 *   decisions under which an earlier run of the epoch let its sink write
 */
final class EpochChannels(sealedBefore: Seq[Decision] = Nil) {
  import EpochChannels.Reading

  private val attempts = mutable.HashMap.empty[Long, Reading]
  // Attempts with a channel that they have not reported.
  private val unread = mutable.HashSet.empty[Long]
  private val whole = mutable.Set.empty[StoreId]
  private val courses = mutable.Map.empty[(Long, StoreId), ChannelCourse]
  private val decided = mutable.LinkedHashMap.from(sealedBefore.map(d => d.report.channel -> d))
  // Each open of a store looks here, so it must not depend on the number of channels.
  private val deferred = mutable.HashMap.empty[OperatorPartition, Vector[StoreId]]
  decided.values.foreach(indexDeferred)

  val stragglers = new Stragglers

  /**
   * An attempt begins to read a channel.
   *
   * @param mayDefer
   *   whether it may leave rows in it; it then reports what it has made of it
   */
  def open(attempt: Long, channel: StoreId, mayDefer: Boolean): Unit = {
    val before = of(attempt)
    val awaited = if (mayDefer) before.awaited + channel else before.awaited
    val reading = before.copy(opened = before.opened + channel, awaited = awaited)
    attempts(attempt) = reading
    if (!mayDefer) whole += channel
    if (!reading.isDone) unread += attempt
    ()
  }

  private def of(attempt: Long): Reading = attempts.getOrElse(attempt, Reading.Nothing)

  /** Whether all of its rows are handed on in this epoch. */
  def isWhole(channel: StoreId): Boolean = whole(channel)

  def hasOpened(attempt: Long, channel: StoreId): Boolean =
    of(attempt).opened(channel)

  def report(
      attempt: Long,
      report: ChannelReport,
      course: Option[ChannelCourse] = None
  ): Unit = {
    // It may be told twice, and has come when that was first heard.
    course.foreach(courses.getOrElseUpdate((attempt, report.channel), _))
    val before = of(attempt)
    val reading = before.copy(reports = before.reports.updated(report.channel, report))
    attempts(attempt) = reading
    if (reading.isDone) unread -= attempt
    ()
  }

  /** Whether the attempt has reported all that it has to. */
  def isRead(attempt: Long): Boolean = !unread(attempt)

  /** The attempts that have not. */
  def reading: Set[Long] = unread.toSet

  def decision(channel: StoreId): Option[Decision] = decided.get(channel)

  /**
   * The attempt is complete: it decides, unless another one has done so.
   *
   * @param frames
   *   what it has written for its channels
   * @return
   *   why it cannot count, if it has decided otherwise
   */
  def settle(attempt: Long, frames: collection.Map[StoreId, FrameName]): Option[String] = {
    val own = of(attempt).reports.values.toSeq
    val conflict = own.find(report => decided.get(report.channel).exists(_.report != report))
    if (conflict.isEmpty) {
      own.foreach { report =>
        if (!decided.contains(report.channel)) {
          val decision = Decision(report, attempt, frames.get(report.channel))
          decided(report.channel) = decision
          indexDeferred(decision)
        }
      }
    }
    conflict.map { report =>
      val known = decided(report.channel)
      s"attempt ${known.attempt} left ${known.report.deferred.rows} of " +
        s"${known.report.input.rows} rows of ${report.channel} in flight, and this one " +
        s"${report.deferred.rows} of ${report.input.rows}"
    }
  }

  private def indexDeferred(decision: Decision): Unit = {
    val channel = decision.report.channel
    if (decision.report.deferred.rows > 0) {
      val key = channel.operatorPartition
      deferred(key) = deferred.getOrElse(key, Vector.empty) :+ channel
    }
  }

  /** The channels of a partition in which a decision leaves rows. */
  def deferredOf(partition: OperatorPartition): Seq[StoreId] = deferred.getOrElse(partition, Nil)

  /** What has been decided, which a sink that seals the epoch relies on. */
  def decisions: Seq[ChannelReport] = decided.values.map(_.report).toSeq

  /** How the channels of these decisions came to the barrier, where this run has seen it. */
  def decidedCourses: Map[StoreId, ChannelCourse] = decided.values.flatMap { decision =>
    val channel = decision.report.channel
    courses.get((decision.attempt, channel)).map(channel -> _)
  }.toMap
}

private object EpochChannels {

  /** What an attempt has opened, has to report, and has reported. */
  final private case class Reading(
      opened: Set[StoreId],
      awaited: Set[StoreId],
      reports: Map[StoreId, ChannelReport]
  ) {
    def isDone: Boolean = awaited.forall(reports.contains)
  }

  private object Reading {
    val Nothing: Reading = Reading(Set.empty, Set.empty, Map.empty)
  }
}

/**
 * Which rows of a channel stay in flight: those in `frame`, if any.
 *
 * @param attempt
 *   whose decision it is
 */
final case class Decision(report: ChannelReport, attempt: Long, frame: Option[FrameName])

object Decision {

  /** The attempt of a decision that an earlier run made. */
  val Earlier: Long = -1L

  /** What a seal says of its epoch. */
  def sealedIn(seal: Cut): Seq[Decision] = seal.channels.map { report =>
    val frame = seal.of(report.channel).map { of =>
      val (kind, version, _) = of.frames.last
      FrameName(of.store, version, kind)
    }
    Decision(report, Earlier, frame)
  }
}
