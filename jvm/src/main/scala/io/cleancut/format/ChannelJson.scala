package io.cleancut.format

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.cleancut.StoreId
import io.cleancut.channels.{ChannelReport, RowsDigest}

/** What a task made of a channel, as it stands in a cut. See `docs/FORMAT.md`, "Cut". */
private object ChannelJson {
  import Json.required

  def write(report: ChannelReport, node: ObjectNode): Unit = {
    node.put("operator", report.channel.operator).put("partition", report.channel.partition)
    node.put("store", report.channel.name)
    node.put("rows", report.input.rows).put("sum", hexadecimal(report.input.sum))
    node.put("rowsInFlight", report.deferred.rows)
    node.put("sumInFlight", hexadecimal(report.deferred.sum))
    ()
  }

  def read(node: JsonNode): ChannelReport = ChannelReport(
    StoreId(
      required(node, "operator").asLong,
      required(node, "partition").asInt,
      required(node, "store").asText
    ),
    RowsDigest(required(node, "rows").asLong, sum(node, "sum")),
    RowsDigest(required(node, "rowsInFlight").asLong, sum(node, "sumInFlight"))
  )

  private def hexadecimal(sum: Long): String = f"$sum%016x"

  private def sum(node: JsonNode, field: String): Long =
    java.lang.Long.parseUnsignedLong(required(node, field).asText, 16)
}
