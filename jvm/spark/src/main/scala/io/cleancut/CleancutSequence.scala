package io.cleancut

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import org.apache.spark.sql.{DataFrame, Dataset}
import org.apache.spark.sql.execution.streaming.state.cleancut.sequence.{
  InSequence,
  SequenceRequest
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.ClassicRows

/** Ordered rows, for callers outside of the JVM. */
object CleancutSequence {
  private val mapper = new ObjectMapper

  /**
   * Emits the rows of each key in order, each number once.
   *
   * @param parameters
   *   a JSON object: `key` (an array of columns), `sequence` (a column), `onGap` ("wait", "fail" or
   *   "skip"), `maxHeld`; optional `previous` (a column), `first` (a number), `timeoutMs`,
   *   `eventTime` (a column), `gapColumn` and `metrics` (names)
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEQUENCE_INVALID
   */
  def inSequence(rows: Dataset[_], parameters: String): DataFrame = {
    val fields = mapper.readTree(parameters)
    def text(name: String): Option[String] = Option(fields.get(name)).map(_.textValue)
    def number(name: String): Option[Long] = Option(fields.get(name)).map(_.longValue)
    val request = SequenceRequest(
      fields.path("key").elements.asScala.map((_: JsonNode).textValue).toSeq,
      fields.path("sequence").textValue,
      text("previous"),
      number("first"),
      number("timeoutMs"),
      text("eventTime"),
      fields.path("onGap").textValue,
      fields.path("maxHeld").intValue,
      text("gapColumn"),
      text("metrics")
    )
    InSequence.of(ClassicRows.of(rows).toDF(), request)
  }
}
