package io.cleancut.history

import io.cleancut.format.{Channels, Proof}
import io.cleancut.format.cut.{ChannelCourse, Cut, EpochCosts, RunId}

/**
 * The health of a driver during an epoch, in addition to the work of the epoch.
 *
 * @param pauseMs
 *   garbage collection pauses of its process
 * @param executorsLost
 *   Spark's executor IDs with the reasons
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
 * The tasks of one stateful operator, in at most [[OperatorRecord.MaxCells]] cells of adjacent
 * partitions.
 *
 * @param perCell
 *   partitions in each cell; the last cell may have fewer
 * @param ms
 *   longest time of a store in each cell
 * @param bytes
 *   bytes of the frames of this epoch
 * @param rows
 *   rows that tasks have read
 * @param rowsInFlight
 *   in-flight rows after the epoch
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

  /** More cells cannot be distinguished on a screen, and each takes some bytes of the event log. */
  val MaxCells = 512
}

/**
 * Why an epoch took longer than others of its run.
 *
 * @param typicalMs
 *   time that it was compared with
 * @param kind
 *   one of [[SlowEpochs.Kinds]]
 * @param detail
 *   explanation with figures
 */
final case class SlowReason(typicalMs: Long, kind: String, detail: String)

/**
 * The duration of one committed epoch, and its causes. It outlives its cut. See `docs/FORMAT.md`,
 * "History".
 *
 * @param name
 *   name of the query, if it is known
 * @param writtenMs
 *   time at which its cut was assembled, in milliseconds since 1970
 * @param timings
 *   milliseconds by phase, as in the cut; `cutMs`, the write time of the cut, and `checkMs`, the
 *   time of the ownership check after it
 * @param costs
 *   None if the cut has no costs
 * @param alignmentMs
 *   how long the first shuffle input to arrive waited for the last; None without shuffle inputs
 * @param barrierToCaptureMs
 *   longest time until an overtaken shuffle input arrived; None if none was overtaken
 * @param aligned
 *   reasons why operators are not captured
 * @param rowsBeyondBound
 *   by operator, rows that did not stay in flight because of the limit
 * @param slow
 *   None if it was not slow, or was not compared
 * @param storedBytes
 *   approximate size of the query in its store, as known to the driver without a request
 * @param proven
 *   last cut with a successful restore test, as known to the driver
 * @param stages
 *   its longest stages, and the names of its operators
 * @param growth
 *   None if its in-flight rows do not grow
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
    proven: Option[Proof] = None,
    stages: EpochStages = EpochStages.None,
    growth: Option[InFlightGrowth] = None
) {

  /** Time from the start of its trigger until its cut was assembled; None if it is unknown. */
  def durationMs: Option[Long] = timings.get("epochMs")

  def gateMs: Long = timings.getOrElse("gateMs", 0L)

  def cutMs: Long = timings.getOrElse("cutMs", 0L)

  /** Time from the end of its sink until its cut existed; None if it is unknown. */
  def cutLagMs: Option[Long] =
    for (gate <- timings.get("gateMs"); cut <- timings.get("cutMs")) yield gate + cut

  /** Time until its cut was written and checked; None if it is unknown. */
  def tookMs: Option[Long] = durationMs.map(_ + cutMs + timings.getOrElse("checkMs", 0L))

  def phaseMs(phase: EpochPhase): Long = phase.durationMs(timings)

  /** Rows that its tasks have read. */
  def rows: Long = operators.map(_.rows.sum).maxOption.getOrElse(0L)
}

object EpochRecord {

  /**
   * The record of an epoch that this driver has committed.
   *
   * @param location
   *   location of the query's checkpoint
   * @param cut
   *   the cut with all its stores
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

  /** The record of an unrecorded epoch, from its cut. */
  def of(location: String, cut: Cut): EpochRecord =
    of(location, None, cut, None, EpochTasks.None, Map.empty, EpochHealth.Calm)
      .copy(operators = Nil)

  private def beyondBound(cut: Cut): Map[Long, Long] =
    cut.courses
      .groupBy(_._1.operator)
      .map { case (operator, inputs) => operator -> inputs.values.map(_.rowsBeyondBound).sum }
      .filter(_._2 > 0)

  private def operatorsOf(cut: Cut, tasks: EpochTasks): Seq[OperatorRecord] = {
    val version = cut.epoch + 1
    val inFlight = cut.channels
      .groupMapReduce(report => (report.channel.operator, report.channel.partition))(
        _.deferred.rows
      )(_ + _)
    val stores = cut.stores.filterNot(store => Channels.isChannel(store.store))
    stores.groupBy(_.store.operator).toSeq.sortBy(_._1).map { case (operator, chains) =>
      val partitions = chains.map(_.store.partition).max + 1
      val perCell = (partitions + OperatorRecord.MaxCells - 1) / OperatorRecord.MaxCells
      val cells = (partitions + perCell - 1) / perCell
      val (ms, bytes) = (new Array[Long](cells), new Array[Long](cells))
      val (rows, held) = (new Array[Long](cells), new Array[Long](cells))
      chains.foreach { chain =>
        val (_, last, place) = chain.frames.last
        if (last.number == version) bytes(chain.store.partition / perCell) += place.length
      }
      chains.map(_.store.partition).distinct.foreach { partition =>
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
