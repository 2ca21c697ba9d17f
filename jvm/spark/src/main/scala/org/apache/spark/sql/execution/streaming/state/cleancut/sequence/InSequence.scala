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
 * What is asked of rows that are to be put in sequence.
 *
 * @param key
 *   columns; the numbers of each key are a sequence of their own
 * @param sequence
 *   the column of the numbers
 * @param previous
 *   the column with the number before; none where numbers are dense
 * @param first
 *   with which number each key begins, where that is known
 * @param timeoutMs
 *   after how long a gap is given up; none for never
 * @param eventTime
 *   the column by whose watermark that time passes; none for the clock
 * @param gapColumn
 *   name of a column to add
 * @param metrics
 *   under which name the counts of an epoch are observed
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

/** The operator that hands on the rows of each key once and by number. */
object InSequence {
  import SequenceOutput.{CountsName, GapName, RowName}

  /** @throws io.cleancut.error.CleancutException CLEANCUT_SEQUENCE_INVALID */
  def of(rows: Dataset[Row], asked: SequenceRequest): DataFrame = {
    val input = new SequenceInput(rows, asked)
    val schema = StructType(input.columns.map(of => StructField(of.name, of.dataType, of.nullable)))
    val keySchema =
      StructType(input.key.map(of => StructField(of.name, of.dataType, of.nullable)))
    // By position, since names may come twice.
    val row = StructType(schema.fields.zipWithIndex.map { case (field, place) =>
      field.copy(name = place.toString)
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
    finished(Dataset.ofRows(rows.sparkSession, plan), input, asked)
  }

  private def finished(all: DataFrame, input: SequenceInput, asked: SequenceRequest): DataFrame = {
    val observed = asked.metrics.fold(all)(observe(all, _))
    val columns = input.columns.zipWithIndex.map { case (of, place) =>
      // What stands behind the operator comes when it may, and is late by no watermark.
      val metadata = new MetadataBuilder()
        .withMetadata(of.metadata)
        .remove(EventTimeWatermark.delayKey)
        .build()
      col(RowName).getField(place.toString).as(of.name, metadata)
    }
    val added = asked.gapColumn.map(col(GapName).as(_))
    observed.where(col(CountsName).isNull).select(columns ++ added: _*)
  }

  private def observe(all: DataFrame, name: String): DataFrame = {
    val sums = SequenceOutput.Counts.fieldNames.toSeq.map { of =>
      coalesce(sum(col(s"$CountsName.$of")), lit(0L)).as(of)
    }
    all.observe(name, sums.head, sums.tail: _*)
  }
}

/** The columns that a request names, and what follows from it. */
final private class SequenceInput(rows: Dataset[Row], asked: SequenceRequest) {
  val columns: Seq[Attribute] = rows.queryExecution.analyzed.output

  val key: Seq[Attribute] = {
    if (asked.key.isEmpty) refuse("key names no column")
    asked.key.map(named("key", _))
  }

  private val number: NumberColumn = numbers("sequence", asked.sequence)

  private val onGap: OnGap = OnGap.all
    .find(_.name == asked.onGap)
    .getOrElse(refuse(s"on_gap is '${asked.onGap}', and not one of ${OnGap.all.map(_.name)}"))

  val read: SequenceColumns = SequenceColumns(
    number,
    asked.previous.map(numbers("previous", _)),
    asked.eventTime.map(timed)
  )

  val rules: SequenceRules = {
    if (asked.maxHeld < 1) refuse(s"max_held is ${asked.maxHeld}, and one row is the least")
    asked.timeoutMs.filter(_ < 1).foreach(of => refuse(s"gap_timeout is $of ms"))
    if (asked.first.isDefined && asked.previous.isDefined)
      refuse("first is for numbers without previous; there, the first of a key has no predecessor")
    if (onGap == OnGap.Fail && asked.timeoutMs.isEmpty)
      refuse("on_gap is 'fail', and there is no gap_timeout after which to fail")
    SequenceRules(asked.previous.isEmpty, asked.first, asked.timeoutMs, onGap, asked.maxHeld)
  }

  val timeMode: TimeMode =
    if (asked.timeoutMs.isEmpty) TimeMode.None()
    else if (asked.eventTime.isDefined) TimeMode.EventTime()
    else TimeMode.ProcessingTime()

  private def numbers(option: String, name: String): NumberColumn = {
    val column = named(option, name)
    if (!NumberColumn.types(column.dataType))
      refuse(s"$option is '$name' of type ${column.dataType.sql}, and not a whole number")
    if (key.exists(_.exprId == column.exprId)) refuse(s"$option is '$name', which is in the key")
    NumberColumn(placeOf(column), column.dataType)
  }

  private def timed(name: String): Int = {
    if (asked.timeoutMs.isEmpty)
      refuse("event_time is the clock of gap_timeout, which is not given")
    val column = named("event_time", name)
    if (column.dataType != TimestampType)
      refuse(s"event_time is '$name' of type ${column.dataType.sql}, and not a timestamp")
    if (!column.metadata.contains(EventTimeWatermark.delayKey))
      refuse(s"event_time is '$name', which has no watermark")
    placeOf(column)
  }

  private def placeOf(column: Attribute): Int = columns.indexWhere(_.exprId == column.exprId)

  private def named(option: String, name: String): Attribute = {
    val isSame = rows.sparkSession.sessionState.conf.resolver
    columns.filter(of => isSame(of.name, name)) match {
      case Seq(one) => one
      case Seq()    => refuse(s"$option is '$name', and there is no such column")
      case _        => refuse(s"$option is '$name', and there are several such columns")
    }
  }

  private def refuse(problem: String): Nothing = throw Errors.sequenceInvalid(problem)
}
