package io.cleancut

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.state.cleancut.sequence.{
  InSequence,
  SequenceRequest
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.ClassicRows

/** Rows in sequence, for callers outside of the JVM. */
object CleancutSequence {
  private val mapper = new ObjectMapper

  /**
   * The rows of each key, each number once and in order.
   *
   * @param asked
   *   a JSON object: `key` (an array of columns), `sequence` (a column), `onGap` ("wait", "fail" or
   *   "skip"), `maxHeld`; and if they are given, `previous` (a column), `first` (a number),
   *   `timeoutMs`, `eventTime` (a column), `gapColumn` and `metrics` (names)
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEQUENCE_INVALID
   */
  def inSequence(rows: Dataset[_], asked: String): DataFrame = {
    val of = mapper.readTree(asked)
    def text(name: String): Option[String] = Option(of.get(name)).map(_.textValue)
    def number(name: String): Option[Long] = Option(of.get(name)).map(_.longValue)
    val request = SequenceRequest(
      of.path("key").elements.asScala.map((_: JsonNode).textValue).toSeq,
      of.path("sequence").textValue,
      text("previous"),
      number("first"),
      number("timeoutMs"),
      text("eventTime"),
      of.path("onGap").textValue,
      of.path("maxHeld").intValue,
      text("gapColumn"),
      text("metrics")
    )
    InSequence.of(ClassicRows.of(rows).toDF(), request)
  }
}
