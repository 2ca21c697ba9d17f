package io.cleancut.format.cut

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.cleancut.base.StoreId
import io.cleancut.format.Json

/**
 * The report of a shuffle input, and how it reached the barrier, in a cut. See `docs/FORMAT.md`,
 * "Shuffle inputs".
 */
object ChannelJson {
  import Json.required

  def write(report: ChannelReport, course: Option[ChannelCourse], node: ObjectNode): Unit = {
    node.put("operator", report.channel.operator).put("partition", report.channel.partition)
    node.put("store", report.channel.name)
    node.put("rows", report.input.rows).put("sum", hexadecimal(report.input.sum))
    node.put("rowsInFlight", report.deferred.rows)
    node.put("sumInFlight", hexadecimal(report.deferred.sum))
    course.foreach(write(_, node))
  }

  private def write(course: ChannelCourse, node: ObjectNode): Unit = {
    node.put("bytesInFlight", course.bytesInFlight).put("rowsReplayed", course.rowsReplayed)
    node.put("arrivedMs", course.arrivedMs)
    if (course.rowsBeyondBound > 0) node.put("rowsBeyondBound", course.rowsBeyondBound)
    course.overtakenMs.foreach(node.put("overtakenMs", _))
    course.captureMs.foreach(node.put("captureMs", _))
  }

  private[format] def read(node: JsonNode): ChannelReport = ChannelReport(
    channelOf(node),
    RowsDigest(required(node, "rows").asLong, sum(node, "sum")),
    RowsDigest(required(node, "rowsInFlight").asLong, sum(node, "sumInFlight"))
  )

  /** None in a cut of a release that did not measure it, or for a decision of an earlier run. */
  private[format] def readCourse(node: JsonNode): Option[(StoreId, ChannelCourse)] = {
    def number(field: String) = Option(node.get(field)).map(_.asLong)
    number("arrivedMs").map { arrivedMs =>
      channelOf(node) -> ChannelCourse(
        number("rowsReplayed").getOrElse(0L),
        number("bytesInFlight").getOrElse(0L),
        number("rowsBeyondBound").getOrElse(0L),
        arrivedMs,
        number("overtakenMs"),
        number("captureMs")
      )
    }
  }

  private def channelOf(node: JsonNode) = StoreId(
    required(node, "operator").asLong,
    required(node, "partition").asInt,
    required(node, "store").asText
  )

  private def hexadecimal(sum: Long): String = f"$sum%016x"

  private def sum(node: JsonNode, field: String): Long =
    java.lang.Long.parseUnsignedLong(required(node, field).asText, 16)
}
