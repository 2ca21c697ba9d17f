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
 * Hands on each number of a key once and in order. What comes out is [[SequenceOutput]]'s.
 *
 * State: `sequence`, how far a key has come ([[ProgressRow]]), and `held`, the rows that wait for
 * one before them, by their numbers. A key of which nothing is held touches the first alone, once
 * an epoch.
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

  /** Which column the rows of a key are to be sorted by. */
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
  ): Iterator[InternalRow] = handedOn(key, if (isSorted) rows else inOrder(rows), timers)

  override def handleExpiredTimer(
      key: InternalRow,
      timers: TimerValues,
      expired: ExpiredTimerInfo
  ): Iterator[InternalRow] = handedOn(key, Iterator.empty, timers, hasFired = true)

  private def handedOn(
      key: InternalRow,
      input: Iterator[InternalRow],
      timers: TimerValues,
      hasFired: Boolean = false
  ): Iterator[InternalRow] = {
    val progress = Option(sequence.get()).fold(KeyProgress.begun(rules))(ProgressRow.read)
    if (hasFired) progress.timerMs = 0
    val now = nowMs(timers)
    def named: String = nameOf(key)
    val run = new SequenceRun[InternalRow](
      rules,
      progress,
      new InState,
      input,
      columns.read(now, () => named),
      now,
      () => hasInFlight(key),
      () => named
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
    // One timer is enough: where nothing is due when it fires, it is set anew.
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
    // Those without a number are refused when they are met.
    kept.sortBy { row =>
      if (columns.number.isNull(row)) Long.MinValue else columns.number(row)
    }.iterator
  }

  private def nameOf(key: InternalRow): String =
    CatalystTypeConverters.createToScalaConverter(keySchema)(key).toString

  private class InState extends HeldRows[InternalRow] {
    override def put(number: Long, row: InternalRow): Unit = rowsHeld.updateValue(number, row)
    override def has(number: Long): Boolean = rowsHeld.containsKey(number)
    override def get(number: Long): InternalRow = rowsHeld.getValue(number).copy()
    override def remove(number: Long): Unit = rowsHeld.removeKey(number)
    override def numbers: Iterator[Long] = rowsHeld.keys()
  }
}

/**
 * The rows of a run, and behind them one that says what else was done, where there is something to
 * say: how many rows were dropped, held and released, gaps given up and gaps overdue.
 *
 * Each is a row of [[SequenceOutput.schema]]. That of the input is a column of it as it is, which
 * costs less than its columns one by one.
 *
 * @param done
 *   called once behind the last row
 */
final private class SequenceOutput(run: SequenceRun[InternalRow], done: () => Unit)
    extends Iterator[InternalRow] {
  import SequenceOutput._

  private val columns = new Array[Any](3)
  private val told: InternalRow = new GenericInternalRow(columns)
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
    told
  }

  /** Whether there is one. */
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

  // Before a row: the last number that was handed on, and since when the next was missing.
  private val Gap = new StructType().add("after", LongType).add("since", TimestampType)

  /** Either a row, perhaps with the gap before it, or counts. */
  def schema(row: StructType): StructType =
    new StructType().add(RowName, row).add(GapName, Gap).add(CountsName, Counts)

  private def withGap(gap: PassedGap): InternalRow =
    new GenericInternalRow(Array[Any](gap.after, gap.sinceMs.map(_ * 1000L).orNull))
}
