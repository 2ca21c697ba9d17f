package io.cleancut.flow

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.error.Errors

/**
 * An epoch that a channel holds, as its manifest says.
 *
 * @param sender
 *   Spark's id of the query that sent it
 * @param after
 *   the one published before it; None for the first
 * @param rows
 *   of all files together, or of all ranges
 * @param schema
 *   of the rows, Spark's JSON
 * @param topic
 *   where the rows lie, if they are not in files
 */
final case class SentEpoch(
    mark: EpochMark,
    sender: String,
    after: Option[EpochMark],
    publishedMs: Long,
    rows: Long,
    files: Vector[SentFile],
    schema: String,
    topic: Option[SentTopic] = None
) {
  def epoch: Long = mark.epoch

  def bytes: Long =
    files.iterator.map(_.bytes).sum + topic.iterator.flatMap(_.ranges).map(_.bytes).sum
}

/** @param name below the channel */
final case class SentFile(name: String, bytes: Long)

/**
 * The rows of an epoch in a topic of Kafka.
 *
 * @param servers
 *   brokers to begin with
 */
final case class SentTopic(servers: String, name: String, ranges: Vector[SentRange])

/**
 * The rows of an epoch in one partition of a topic. Records of others may lie between them.
 *
 * @param first
 *   the offset of the first of them
 * @param last
 *   the offset of the last one
 */
final case class SentRange(partition: Int, first: Long, last: Long, rows: Long, bytes: Long)

object SentEpoch {
  private val Topic = "kafka"

  /** What manifests of a version have the rows in. */
  private val Formats = Map(1 -> "parquet", 2 -> Topic)
  private val mapper = new ObjectMapper

  /**
   * Reads the manifest of an epoch, which the Python package writes; docs/FORMAT.md has the fields.
   *
   * @param path
   *   of the manifest, for errors
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FLOW_DAMAGED, CLEANCUT_FORMAT_UNKNOWN; CLEANCUT_FLOW_FOREIGN, the epoch is not a
   *   channel's
   */
  def parse(body: Array[Byte], path: String, epoch: Long): SentEpoch = {
    def damaged(detail: String, cause: Throwable = null) =
      Errors.flowDamaged(path, detail, cause)
    val node =
      try mapper.readTree(body)
      catch { case NonFatal(e) => throw damaged("it is not JSON", e) }
    if (node == null || !node.isObject) throw damaged("it is not a JSON object")
    val version = node.path("formatVersion").asInt(-1)
    val format = Formats.getOrElse(
      version,
      throw Errors.formatUnknown(path, version.toString, Formats.keys.max.toString)
    )
    if (!node.has("after") || node.path("format").asText != format)
      throw Errors.flowForeign(path, epoch)
    val found =
      try of(node)
      catch { case NonFatal(e) => throw damaged(e.getMessage, e) }
    if (found.epoch != epoch) throw damaged(s"it is that of epoch ${found.epoch}")
    found
  }

  private def of(node: JsonNode): SentEpoch = SentEpoch(
    mark = markIn(node),
    sender = text(node, "queryId"),
    after = Option(node.get("after")).filterNot(_.isNull).map(markIn),
    publishedMs = number(node, "publishedMs"),
    rows = number(node, "rows"),
    files = node
      .required("files")
      .elements()
      .asScala
      .map(file => SentFile(text(file, "name"), number(file, "bytes")))
      .toVector,
    schema = node.required("schema").toString,
    topic = Option.when(isInTopic(node))(topicIn(node.required("topic")))
  )

  private def isInTopic(node: JsonNode) = node.path("format").asText == Topic

  private def topicIn(node: JsonNode) = SentTopic(
    text(node, "servers"),
    text(node, "name"),
    node.required("ranges").elements().asScala.map(rangeIn).toVector
  )

  private def rangeIn(node: JsonNode) = {
    val found = SentRange(
      number(node, "partition").toInt,
      number(node, "first"),
      number(node, "last"),
      number(node, "rows"),
      number(node, "bytes")
    )
    require(
      1 <= found.rows && found.rows <= found.last - found.first + 1,
      s"${found.rows} rows do not lie from ${found.first} to ${found.last}"
    )
    found
  }

  private def markIn(node: JsonNode) = EpochMark(number(node, "epoch"), text(node, "attempt"))

  private def number(node: JsonNode, field: String): Long = {
    val value = node.required(field)
    require(value.isIntegralNumber, s"$field is no whole number")
    value.longValue
  }

  private def text(node: JsonNode, field: String): String = {
    val value = node.required(field)
    require(value.isTextual, s"$field is no text")
    value.textValue
  }
}
