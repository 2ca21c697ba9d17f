package io.cleancut.protocol

import scala.collection.mutable

import io.cleancut.base.{OperatorPartition, StoreId}
import io.cleancut.format.FrameName
import io.cleancut.format.cut.{ChannelCourse, ChannelReport, Cut}

/**
 * The shuffle inputs of one uncommitted epoch: the attempts that read them, and the decisions on
 * their rows. Pure.
 *
 * The first attempt of a task whose frames outlive its executor decides which rows stay in flight,
 * because the rows that it emitted may be cached afterwards. Later attempts receive the decision
 * and repeat it. If an attempt has begun that must not leave in-flight rows, because its rows may
 * be visible before the sink seals, later attempts must not leave rows either.
 *
 * @param sealedBefore
 *   decisions of an earlier run of the epoch that was sealed
 */
final class EpochChannels(sealedBefore: Seq[Decision] = Nil) {
  import EpochChannels.Reading

  private val attempts = mutable.HashMap.empty[Long, Reading]
  // Attempts with a shuffle input that they have not reported.
  private val unread = mutable.HashSet.empty[Long]
  private val whole = mutable.Set.empty[StoreId]
  private val courses = mutable.Map.empty[(Long, StoreId), ChannelCourse]
  private val decided = mutable.LinkedHashMap.from(sealedBefore.map(d => d.report.channel -> d))
  // Each open of a store reads this, so it must not depend on the number of shuffle inputs.
  private val deferred = mutable.HashMap.empty[OperatorPartition, Vector[StoreId]]
  decided.values.foreach(indexDeferred)

  val stragglers = new Stragglers

  /**
   * An attempt begins to read a shuffle input.
   *
   * @param mayDefer
   *   whether it may leave in-flight rows; it then has to report
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

  /** Whether all of its rows are emitted in this epoch. */
  def isWhole(channel: StoreId): Boolean = whole(channel)

  def hasOpened(attempt: Long, channel: StoreId): Boolean =
    of(attempt).opened(channel)

  def report(
      attempt: Long,
      report: ChannelReport,
      course: Option[ChannelCourse] = None
  ): Unit = {
    // A report may be repeated; the first one counts as the arrival.
    course.foreach(courses.getOrElseUpdate((attempt, report.channel), _))
    val before = of(attempt)
    val reading = before.copy(reports = before.reports.updated(report.channel, report))
    attempts(attempt) = reading
    if (reading.isDone) unread -= attempt
    ()
  }

  /** Whether the attempt has sent all its reports. */
  def isRead(attempt: Long): Boolean = !unread(attempt)

  /** The attempts with missing reports. */
  def reading: Set[Long] = unread.toSet

  def decision(channel: StoreId): Option[Decision] = decided.get(channel)

  /**
   * The attempt is complete: it decides, unless another one has decided.
   *
   * @param frames
   *   frames of its shuffle inputs
   * @return
   *   reason why it cannot count, if its decision differs
   */
  def settle(attempt: Long, frames: collection.Map[StoreId, FrameName]): Option[String] = {
    val reports = of(attempt).reports.values.toSeq
    val conflict = reports.find(report => decided.get(report.channel).exists(_.report != report))
    if (conflict.isEmpty) {
      reports.foreach { report =>
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

  /** The shuffle inputs of a partition in which a decision leaves rows. */
  def deferredOf(partition: OperatorPartition): Seq[StoreId] = deferred.getOrElse(partition, Nil)

  /** The decisions so far, on which a sink that seals the epoch relies. */
  def decisions: Seq[ChannelReport] = decided.values.map(_.report).toSeq

  /** How the decided shuffle inputs reached the barrier, if this run has seen it. */
  def decidedCourses: Map[StoreId, ChannelCourse] = decided.values.flatMap { decision =>
    val channel = decision.report.channel
    courses.get((decision.attempt, channel)).map(channel -> _)
  }.toMap
}

private object EpochChannels {

  /** The shuffle inputs that an attempt has opened, must report, and has reported. */
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
 * The decision on the rows of a shuffle input: the rows in `frame`, if any, stay in flight.
 *
 * @param attempt
 *   attempt that has decided
 */
final case class Decision(report: ChannelReport, attempt: Long, frame: Option[FrameName])

object Decision {

  /** The attempt of a decision that an earlier run made. */
  val Earlier: Long = -1L

  /** The decisions in a seal. */
  def sealedIn(seal: Cut): Seq[Decision] = seal.channels.map { report =>
    val frame = seal.of(report.channel).map { chain =>
      val (kind, version, _) = chain.frames.last
      FrameName(chain.store, version, kind)
    }
    Decision(report, Earlier, frame)
  }
}
