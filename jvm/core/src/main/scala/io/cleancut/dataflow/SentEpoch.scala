package io.cleancut.dataflow

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
 *   of all files together
 * @param schema
 *   of the rows, Spark's JSON
 */
final case class SentEpoch(
    mark: EpochMark,
    sender: String,
    after: Option[EpochMark],
    publishedMs: Long,
    rows: Long,
    files: Vector[SentFile],
    schema: String
) {
  def epoch: Long = mark.epoch

  def bytes: Long = files.iterator.map(_.bytes).sum
}

/** @param name below the channel */
final case class SentFile(name: String, bytes: Long)

object SentEpoch {
  private val FormatVersion = 1
  private val Format = "parquet"
  private val mapper = new ObjectMapper

  /**
   * Reads the manifest of an epoch, which the Python package writes; docs/FORMAT.md has the fields.
   *
   * @param path
   *   of the manifest, for errors
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHANNEL_CORRUPTED, CLEANCUT_FORMAT_UNKNOWN; CLEANCUT_CHANNEL_INVALID, the epoch is
   *   not a channel's
   */
  def parse(body: Array[Byte], path: String, epoch: Long): SentEpoch = {
    def damaged(detail: String, cause: Throwable = null) =
      Errors.channelCorrupted(path, detail, cause)
    val node =
      try mapper.readTree(body)
      catch { case NonFatal(e) => throw damaged("it is not JSON", e) }
    if (node == null || !node.isObject) throw damaged("it is not a JSON object")
    val version = node.path("formatVersion").asInt(-1)
    if (version != FormatVersion)
      throw Errors.formatUnknown(path, version.toString, FormatVersion.toString)
    if (!node.has("after") || node.path("format").asText != Format)
      throw Errors.channelInvalid(path, epoch)
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
    schema = node.required("schema").toString
  )

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
