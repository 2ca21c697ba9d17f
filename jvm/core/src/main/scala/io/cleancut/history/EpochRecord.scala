package io.cleancut.history

import io.cleancut.format.{Channels, Proof}
import io.cleancut.format.cut.{ChannelCourse, Cut, EpochCosts, RunId}

/**
 * What a driver lived through in an epoch, beside what the epoch itself took.
 *
 * @param pauseMs
 *   that its process stood still to collect garbage
 * @param executorsLost
 *   Spark's ids of them, with the reasons
 * @param repeatedTasks
 *   task attempts beyond one for each task
 */
final case class EpochHealth(
    pauseMs: Long,
    executorsLost: Seq[(String, String)],
    repeatedTasks: Int
)

object EpochHealth {
  val Calm: EpochHealth = EpochHealth(0L, Nil, 0)
}

/**
 * The tasks of one stateful operator, in cells of so many neighbours that there are at most
 * [[OperatorRecord.MaxCells]] of them.
 *
 * @param perCell
 *   partitions in each cell; the last may have fewer
 * @param ms
 *   of each cell, the longest that a store took
 * @param bytes
 *   of the frames of this epoch
 * @param rows
 *   that tasks have read
 * @param rowsInFlight
 *   after the epoch
 */
final case class OperatorRecord(
    operator: Long,
    partitions: Int,
    perCell: Int,
    ms: Seq[Long],
    bytes: Seq[Long],
    rows: Seq[Long],
    rowsInFlight: Seq[Long]
)

object OperatorRecord {

  /** More are not told apart on a screen, and each takes some bytes of an event log. */
  val MaxCells = 512
}

/**
 * Why an epoch took longer than others of its run.
 *
 * @param typicalMs
 *   what it was compared with
 * @param kind
 *   one of [[SlowEpochs.Kinds]]
 * @param detail
 *   in words, with the figures that say so
 */
final case class SlowReason(typicalMs: Long, kind: String, detail: String)

/**
 * What one committed epoch took, and why. It outlives the cut that it is drawn from. See
 * `docs/FORMAT.md`, "History".
 *
 * @param name
 *   of the query, if it has one and it is known
 * @param writtenMs
 *   when its cut was put together, in milliseconds since 1970
 * @param timings
 *   milliseconds by phase, as in the cut, and `cutMs`, what the write of that took
 * @param costs
 *   None where the cut does not tell
 * @param alignmentMs
 *   how long the first channel to arrive waited for the last; None without channels
 * @param barrierToCaptureMs
 *   the longest that an overtaken channel took to arrive; None where none was
 * @param aligned
 *   why operators are not captured
 * @param rowsBeyondBound
 *   by operator, how many did not stay in flight for lack of room
 * @param slow
 *   None where it was not slow, and where nobody judged
 * @param storedBytes
 *   about what lay in its store then, as the driver knew without asking
 * @param proven
 *   the last cut of which the driver knew then that it can be restored
 */
final case class EpochRecord(
    location: String,
    name: Option[String],
    run: RunId,
    epoch: Long,
    writtenMs: Long,
    stores: Int,
    timings: Map[String, Long],
    costs: Option[EpochCosts],
    rowsInFlight: Long,
    bytesInFlight: Long,
    alignmentMs: Option[Long],
    barrierToCaptureMs: Option[Long],
    aligned: Map[Long, String],
    rowsBeyondBound: Map[Long, Long],
    operators: Seq[OperatorRecord],
    health: EpochHealth,
    slow: Option[SlowReason],
    storedBytes: Option[Long] = None,
    proven: Option[Proof] = None
) {

  /** None where no task has run. */
  def durationMs: Option[Long] = timings.get("epochMs")

  def gateMs: Long = timings.getOrElse("gateMs", 0L)

  def cutMs: Long = timings.getOrElse("cutMs", 0L)

  /** Until its cut was written; None where no task has run. */
  def tookMs: Option[Long] = durationMs.map(_ + cutMs)

  /** Rows that its tasks have read. */
  def rows: Long = operators.map(_.rows.sum).maxOption.getOrElse(0L)
}

object EpochRecord {

  /**
   * What a driver knows of an epoch that it has committed.
   *
   * @param location
   *   of the query's checkpoint
   * @param cut
   *   with all its stores
   */
  def of(
      location: String,
      name: Option[String],
      cut: Cut,
      cutMs: Option[Long],
      tasks: EpochTasks,
      aligned: Map[Long, String],
      health: EpochHealth
  ): EpochRecord = {
    val courses = cut.courses.values
    EpochRecord(
      location,
      name,
      cut.run,
      cut.epoch,
      cut.writtenMs,
      cut.stores.size,
      cut.timings ++ cutMs.map("cutMs" -> _),
      cut.costs,
      cut.channels.map(_.deferred.rows).sum,
      courses.map(_.bytesInFlight).sum,
      ChannelCourse.longestAlignmentMs(cut.courses),
      courses.flatMap(_.barrierToCaptureMs).maxOption,
      aligned,
      beyondBound(cut),
      operatorsOf(cut, tasks),
      health.copy(repeatedTasks = tasks.repeated),
      None
    )
  }

  /** What is left of an epoch that nobody has noted, in its cut. */
  def of(location: String, cut: Cut): EpochRecord =
    of(location, None, cut, None, EpochTasks.None, Map.empty, EpochHealth.Calm)
      .copy(operators = Nil)

  private def beyondBound(cut: Cut): Map[Long, Long] =
    cut.courses
      .groupBy(_._1.operator)
      .map { case (operator, of) => operator -> of.values.map(_.rowsBeyondBound).sum }
      .filter(_._2 > 0)

  private def operatorsOf(cut: Cut, tasks: EpochTasks): Seq[OperatorRecord] = {
    val version = cut.epoch + 1
    val inFlight = cut.channels
      .groupMapReduce(of => (of.channel.operator, of.channel.partition))(_.deferred.rows)(_ + _)
    val stores = cut.stores.filterNot(of => Channels.isChannel(of.store))
    stores.groupBy(_.store.operator).toSeq.sortBy(_._1).map { case (operator, of) =>
      val partitions = of.map(_.store.partition).max + 1
      val perCell = (partitions + OperatorRecord.MaxCells - 1) / OperatorRecord.MaxCells
      val cells = (partitions + perCell - 1) / perCell
      val (ms, bytes) = (new Array[Long](cells), new Array[Long](cells))
      val (rows, held) = (new Array[Long](cells), new Array[Long](cells))
      of.foreach { chain =>
        val (_, last, place) = chain.frames.last
        if (last.number == version) bytes(chain.store.partition / perCell) += place.length
      }
      of.map(_.store.partition).distinct.foreach { partition =>
        val (cell, task) = (partition / perCell, (operator, partition))
        ms(cell) = Math.max(ms(cell), tasks.ms.getOrElse(task, 0L))
        rows(cell) += tasks.rowsOf.getOrElse(task, 0L)
        held(cell) += inFlight.getOrElse(task, 0L)
      }
      OperatorRecord(
        operator,
        partitions,
        perCell,
        ms.toSeq,
        bytes.toSeq,
        rows.toSeq,
        held.toSeq
      )
    }
  }
}
