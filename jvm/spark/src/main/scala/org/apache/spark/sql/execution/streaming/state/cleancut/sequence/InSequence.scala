package org.apache.spark.sql.execution.streaming.state.cleancut.sequence

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExpressionEncoder
import org.apache.spark.sql.catalyst.expressions.Attribute
import org.apache.spark.sql.catalyst.plans.logical.{EventTimeWatermark, TransformWithState}
import org.apache.spark.sql.classic.Dataset
import org.apache.spark.sql.functions.{coalesce, col, lit, sum}
import org.apache.spark.sql.streaming.{OutputMode, TimeMode}
import org.apache.spark.sql.types._

import io.cleancut.error.Errors
import io.cleancut.sequence.{OnGap, SequenceRules}

/**
 * Parameters for ordering rows.
 *
 * @param key
 *   columns; the numbers of each key are a separate sequence
 * @param sequence
 *   column of the numbers
 * @param previous
 *   column of the preceding number; None for consecutive numbers
 * @param first
 *   the first number of each key, if it is known
 * @param timeoutMs
 *   after this time, a gap is skipped or an error; None for never
 * @param eventTime
 *   the column whose watermark measures that time; None for processing time
 * @param gapColumn
 *   name of a column to add
 * @param metrics
 *   name of the observed counts of an epoch
 */
final case class SequenceRequest(
    key: Seq[String],
    sequence: String,
    previous: Option[String],
    first: Option[Long],
    timeoutMs: Option[Long],
    eventTime: Option[String],
    onGap: String,
    maxHeld: Int,
    gapColumn: Option[String],
    metrics: Option[String]
)

/** The operator that emits the rows of each key in order, each number once. */
object InSequence {
  import SequenceOutput.{CountsName, GapName, RowName}

  /** @throws io.cleancut.error.CleancutException CLEANCUT_SEQUENCE_INVALID */
  def of(rows: Dataset[Row], request: SequenceRequest): DataFrame = {
    val input = new SequenceInput(rows, request)
    val schema = StructType(
      input.columns.map(column => StructField(column.name, column.dataType, column.nullable))
    )
    val keySchema =
      StructType(
        input.key.map(column => StructField(column.name, column.dataType, column.nullable))
      )
    // By position, because names may be duplicate.
    val row = StructType(schema.fields.zipWithIndex.map { case (field, index) =>
      field.copy(name = index.toString)
    })
    val processor =
      new SequenceProcessor(input.rules, input.read, keySchema, schema)
    implicit val keys: ExpressionEncoder[InternalRow] = RowObjects.copying(keySchema)
    val plan = TransformWithState[InternalRow, InternalRow, InternalRow](
      input.key,
      input.columns,
      processor,
      input.timeMode,
      OutputMode.Append(),
      rows.queryExecution.analyzed
    )(keys, RowObjects.encoder(schema), RowObjects.encoder(SequenceOutput.schema(row)))
    visibleRows(Dataset.ofRows(rows.sparkSession, plan), input, request)
  }

  private def visibleRows(
      all: DataFrame,
      input: SequenceInput,
      request: SequenceRequest
  ): DataFrame = {
    val observed = request.metrics.fold(all)(observe(all, _))
    val columns = input.columns.zipWithIndex.map { case (column, index) =>
      // Rows after the operator may have any time; the watermark does not apply to them.
      val metadata = new MetadataBuilder()
        .withMetadata(column.metadata)
        .remove(EventTimeWatermark.delayKey)
        .build()
      col(RowName).getField(index.toString).as(column.name, metadata)
    }
    val added = request.gapColumn.map(col(GapName).as(_))
    observed.where(col(CountsName).isNull).select(columns ++ added: _*)
  }

  private def observe(all: DataFrame, name: String): DataFrame = {
    val sums = SequenceOutput.Counts.fieldNames.toSeq.map { count =>
      coalesce(sum(col(s"$CountsName.$count")), lit(0L)).as(count)
    }
    all.observe(name, sums.head, sums.tail: _*)
  }
}

/** The columns of a request, and the values that depend on them. */
final private class SequenceInput(rows: Dataset[Row], request: SequenceRequest) {
  val columns: Seq[Attribute] = rows.queryExecution.analyzed.output

  val key: Seq[Attribute] = {
    if (request.key.isEmpty) refuse("key is empty")
    request.key.map(named("key", _))
  }

  private val number: NumberColumn = numbers("sequence", request.sequence)

  private val onGap: OnGap = OnGap.all
    .find(_.name == request.onGap)
    .getOrElse(refuse(s"on_gap is '${request.onGap}', but must be one of ${OnGap.all.map(_.name)}"))

  val read: SequenceColumns = SequenceColumns(
    number,
    request.previous.map(numbers("previous", _)),
    request.eventTime.map(timed)
  )

  val rules: SequenceRules = {
    if (request.maxHeld < 1) refuse(s"max_held is ${request.maxHeld}, but must be at least 1")
    request.timeoutMs
      .filter(_ < 1)
      .foreach(ms => refuse(s"gap_timeout is $ms ms, but must be positive"))
    if (request.first.isDefined && request.previous.isDefined)
      refuse(
        "first cannot be combined with previous, where the first row of a key has no predecessor"
      )
    if (onGap == OnGap.Fail && request.timeoutMs.isEmpty)
      refuse("on_gap is 'fail', which requires gap_timeout")
    SequenceRules(
      request.previous.isEmpty,
      request.first,
      request.timeoutMs,
      onGap,
      request.maxHeld
    )
  }

  val timeMode: TimeMode =
    if (request.timeoutMs.isEmpty) TimeMode.None()
    else if (request.eventTime.isDefined) TimeMode.EventTime()
    else TimeMode.ProcessingTime()

  private def numbers(option: String, name: String): NumberColumn = {
    val column = named(option, name)
    if (!NumberColumn.types(column.dataType))
      refuse(s"$option is '$name' of type ${column.dataType.sql}, but must be an integer")
    if (key.exists(_.exprId == column.exprId)) refuse(s"$option is '$name', which is in the key")
    NumberColumn(indexOf(column), column.dataType)
  }

  private def timed(name: String): Int = {
    if (request.timeoutMs.isEmpty)
      refuse("event_time requires gap_timeout")
    val column = named("event_time", name)
    if (column.dataType != TimestampType)
      refuse(s"event_time is '$name' of type ${column.dataType.sql}, but must be a timestamp")
    if (!column.metadata.contains(EventTimeWatermark.delayKey))
      refuse(s"event_time is '$name', which has no watermark")
    indexOf(column)
  }

  private def indexOf(column: Attribute): Int = columns.indexWhere(_.exprId == column.exprId)

  private def named(option: String, name: String): Attribute = {
    val isSame = rows.sparkSession.sessionState.conf.resolver
    columns.filter(column => isSame(column.name, name)) match {
      case Seq(column) => column
      case Seq()       => refuse(s"$option is '$name', but this column does not exist")
      case _           => refuse(s"$option is '$name', but several columns have this name")
    }
  }

  private def refuse(problem: String): Nothing = throw Errors.sequenceInvalid(problem)
}
