package io.cleancut.format.cut

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.{ArrayNode, ObjectNode}

import io.cleancut.base.StoreId
import io.cleancut.format.Json

/** The costs of an epoch as JSON. A number that a release did not count is 0. */
object CostsJson {

  def write(costs: EpochCosts, node: ObjectNode): ObjectNode = {
    write(costs.driver, node.putObject("driver"))
    write(costs.executors, node.putObject("executors")).put("count", costs.executorCount)
    write(costs.slowest, node.putArray("slowest"))
    node
  }

  def write(times: Seq[StoreTime], node: ArrayNode): Unit = times.foreach { time =>
    val store = node.addObject()
    store.put("operator", time.store.operator).put("partition", time.store.partition)
    store.put("store", time.store.name).put("executor", time.executor)
    store.put("host", time.host).put("ms", time.ms)
  }

  /** Omits kinds without requests. */
  def write(share: ShareCosts, node: ObjectNode): ObjectNode = {
    val requests = node.putObject("requests")
    share.requests.toSeq.sortBy(_._1).foreach { case (kind, counts) =>
      val entry = requests.putObject(kind).put("requests", counts.requests)
      entry.put("retries", counts.retries).put("failures", counts.failures)
    }
    node.put("bytesSent", share.bytesSent).put("bytesReceived", share.bytesReceived)
    node.put("frames", share.frames).put("frameBytes", share.frameBytes)
    node.put("segments", share.segments).put("segmentBytes", share.segmentBytes)
    node.put("sentMs", share.sentMs).put("waitedMs", share.waitedMs)
  }

  /** Throws `IllegalArgumentException` if the node is not in the format of [[write]]. */
  private[cleancut] def read(node: JsonNode): EpochCosts = {
    val executors = part(node, "executors")
    val slowest = Json.required(node, "slowest")
    require(slowest.isArray, "slowest is not an array")
    val count = number(executors, "count").toInt
    EpochCosts(
      readShare(part(node, "driver")),
      readShare(executors),
      count,
      slowest.elements.asScala.map(readTime).toSeq
    )
  }

  private def readShare(node: JsonNode): ShareCosts = {
    val requests = part(node, "requests").properties.asScala.map { entry =>
      val numbers = entry.getValue
      require(numbers.isObject, s"the requests of kind ${entry.getKey} are not an object")
      entry.getKey ->
        KindCosts(
          number(numbers, "requests"),
          number(numbers, "retries"),
          number(numbers, "failures")
        )
    }
    ShareCosts(
      requests.toMap,
      number(node, "bytesSent"),
      number(node, "bytesReceived"),
      number(node, "frames"),
      number(node, "frameBytes"),
      number(node, "segments"),
      number(node, "segmentBytes"),
      number(node, "sentMs"),
      number(node, "waitedMs")
    )
  }

  private def readTime(node: JsonNode): StoreTime = StoreTime(
    StoreId(
      Json.required(node, "operator").asLong,
      Json.required(node, "partition").asInt,
      Json.required(node, "store").asText
    ),
    node.path("executor").asText,
    node.path("host").asText,
    number(node, "ms")
  )

  private def part(node: JsonNode, field: String): JsonNode = {
    val value = Json.required(node, field)
    require(value.isObject, s"$field is not an object")
    value
  }

  private def number(node: JsonNode, field: String): Long = {
    val value = node.path(field)
    require(value.isMissingNode || value.isIntegralNumber, s"$field is not a number")
    value.asLong
  }
}
