package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.TaskContext
import org.apache.spark.sql.Encoders
import org.apache.spark.sql.catalyst.{CatalystTypeConverters, InternalRow}
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.InFlightKeys
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.types.StructType

import io.cleancut.sequence._

/**
 * Emits each number of a key once and in order, as rows of [[SequenceOutput]].
 *
 * State: `sequence` is the progress of a key ([[ProgressRow]]), and `held` has the rows that wait
 * for a preceding one, by their numbers. A key without held rows only accesses the first, once per
 * epoch.
 *
 * @param sortedFor
 *   ID of the operator, if its input is sorted by number ([[SequenceRule]]). If not, the rows of a
 *   key are sorted in memory, and no rows are in flight to the operator.
 */
final private[cleancut] class SequenceProcessor(
    val rules: SequenceRules,
    columns: SequenceColumns,
    keySchema: StructType,
    schema: StructType,
    sortedFor: Option[Long] = None
) extends StatefulProcessor[InternalRow, InternalRow, InternalRow] {
  @transient private var sequence: ValueState[InternalRow] = _
  @transient private var rowsHeld: MapState[Long, InternalRow] = _
  @transient private var timeMode: TimeMode = _

  /** The column that the rows of a key have to be sorted by. */
  def orderedBy: Int = columns.number.place

  def isSorted: Boolean = sortedFor.isDefined

  /**
   * @param operator
   *   ID of the operator whose input is sorted
   */
  def sorted(operator: Long): SequenceProcessor =
    new SequenceProcessor(rules, columns, keySchema, schema, Some(operator))

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit = {
    this.timeMode = timeMode
    sequence = getHandle.getValueState(
      "sequence",
      RowObjects.encoder(ProgressRow.Schema),
      TTLConfig.NONE
    )
    rowsHeld = getHandle.getMapState(
      "held",
      Encoders.scalaLong,
      RowObjects.encoder(schema),
      TTLConfig.NONE
    )
  }

  override def handleInputRows(
      key: InternalRow,
      rows: Iterator[InternalRow],
      timers: TimerValues
  ): Iterator[InternalRow] = orderedOutput(key, if (isSorted) rows else inOrder(rows), timers)

  override def handleExpiredTimer(
      key: InternalRow,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[InternalRow] = orderedOutput(key, Iterator.empty, timers, hasFired = true)

  private def orderedOutput(
      key: InternalRow,
      input: Iterator[InternalRow],
      timers: TimerValues,
      hasFired: Boolean = false
  ): Iterator[InternalRow] = {
    val progress = Option(sequence.get()).fold(KeyProgress.begun(rules))(ProgressRow.read)
    if (hasFired) progress.timerMs = 0
    val now = nowMs(timers)
    def keyName: String = nameOf(key)
    val run = new SequenceRun[InternalRow](
      rules,
      progress,
      new StateRows,
      input,
      columns.read(now, () => keyName),
      now,
      () => hasInFlight(key),
      () => keyName
    )
    new SequenceOutput(run, () => settle(run))
  }

  private def hasInFlight(key: InternalRow): Boolean = {
    val keys = for {
      operator <- sortedFor
      task <- Option(TaskContext.get())
      keys <- InFlightKeys.of(task.taskAttemptId(), operator)
    } yield keys
    keys.exists(_.contains(key))
  }

  private def settle(run: SequenceRun[InternalRow]): Unit = {
    val progress = run.progress
    // One timer is sufficient: if nothing is due when it fires, it is set again.
    for (due <- run.dueMs if progress.timerMs == 0) {
      getHandle.registerTimer(due)
      progress.timerMs = due
    }
    progress.prune()
    sequence.update(ProgressRow.of(progress))
  }

  private def nowMs(timers: TimerValues): Long =
    if (timeMode == TimeMode.ProcessingTime()) timers.getCurrentProcessingTimeInMs()
    else if (timeMode == TimeMode.EventTime()) timers.getCurrentWatermarkInMs()
    else 0

  private def inOrder(rows: Iterator[InternalRow]): Iterator[InternalRow] = {
    val kept = rows.map(_.copy()).toArray
    // Rows without a number are refused when they are reached.
    kept.sortBy { row =>
      if (columns.number.isNull(row)) Long.MinValue else columns.number(row)
    }.iterator
  }

  private def nameOf(key: InternalRow): String =
    CatalystTypeConverters.createToScalaConverter(keySchema)(key).toString

  private class StateRows extends HeldRows[InternalRow] {
    override def put(number: Long, row: InternalRow): Unit = rowsHeld.updateValue(number, row)
    override def has(number: Long): Boolean = rowsHeld.containsKey(number)
    override def get(number: Long): InternalRow = rowsHeld.getValue(number).copy()
    override def remove(number: Long): Unit = rowsHeld.removeKey(number)
    override def numbers: Iterator[Long] = rowsHeld.keys()
  }
}

/**
 * The rows of a run, followed by a row with counts if there are any: dropped, held and released
 * rows, skipped gaps and overdue gaps.
 *
 * Each is a row of [[SequenceOutput.schema]]. The input row is a single column, which costs less
 * than separate columns.
 *
 * @param done
 *   called once after the last row
 */
final private class SequenceOutput(run: SequenceRun[InternalRow], done: () => Unit)
    extends Iterator[InternalRow] {
  import SequenceOutput._

  private val columns = new Array[Any](3)
  private val output: InternalRow = new GenericInternalRow(columns)
  private var isReady, isDone = false

  override def hasNext: Boolean = {
    if (!isReady && !isDone) {
      isReady = run.advance()
      if (isReady) {
        columns(0) = run.row
        columns(1) = run.gapBefore.map(withGap).orNull
      } else {
        isDone = true
        done()
        isReady = report()
      }
    }
    isReady
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException
    isReady = false
    output
  }

  /**
   * Sets the row of counts.
   *
   * @return
   *   whether there are any
   */
  private def report(): Boolean = {
    import run._
    val hasCounts = newlyDropped + newlyHeld + released + newGaps > 0 || isOverdue
    if (hasCounts) {
      val counts = Array[Any](newlyDropped, newlyHeld, released, newGaps, if (isOverdue) 1L else 0L)
      columns(0) = null
      columns(1) = null
      columns(2) = new GenericInternalRow(counts)
    }
    hasCounts
  }
}

private[sequence] object SequenceOutput {
  import org.apache.spark.sql.types._

  val RowName = "__cleancut_row"
  val GapName = "__cleancut_gap"
  val CountsName = "__cleancut_counts"

  val Counts: StructType =
    Seq("dropped", "held", "released", "gaps", "overdue").foldLeft(new StructType) {
      _.add(_, LongType, nullable = false)
    }

  // The gap before a row: the last emitted number, and since when the next one is missing.
  private val Gap = new StructType().add("after", LongType).add("since", TimestampType)

  /** Either a row, optionally with the gap before it, or counts. */
  def schema(row: StructType): StructType =
    new StructType().add(RowName, row).add(GapName, Gap).add(CountsName, Counts)

  private def withGap(gap: PassedGap): InternalRow =
    new GenericInternalRow(Array[Any](gap.after, gap.sinceMs.map(_ * 1000L).orNull))
}
