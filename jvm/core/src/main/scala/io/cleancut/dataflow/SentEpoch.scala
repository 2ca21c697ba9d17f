package io.cleancut.dataflow

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.error.Errors

/**
 * An epoch of a channel, from its manifest.
 *
 * @param sender
 *   Spark's query ID of the sender
 * @param after
 *   predecessor in the channel; None for the first
 * @param rows
 *   number of rows in all files
 * @param schema
 *   schema of the rows as Spark's JSON
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

/** @param name path below the channel */
final case class SentFile(name: String, bytes: Long)

object SentEpoch {
  private val FormatVersion = 1
  private val Format = "parquet"
  private val mapper = new ObjectMapper

  /**
   * Parses the manifest of an epoch, which the Python package writes; docs/FORMAT.md defines its
   * fields.
   *
   * @param path
   *   path of the manifest, for errors
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CHANNEL_CORRUPTED, CLEANCUT_FORMAT_UNKNOWN; CLEANCUT_CHANNEL_INVALID if the epoch
   *   does not belong to a channel
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
    val sent =
      try of(node)
      catch { case NonFatal(e) => throw damaged(e.getMessage, e) }
    if (sent.epoch != epoch) throw damaged(s"it is the manifest of epoch ${sent.epoch}")
    sent
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
    require(value.isIntegralNumber, s"$field is not an integer")
    value.longValue
  }

  private def text(node: JsonNode, field: String): String = {
    val value = node.required(field)
    require(value.isTextual, s"$field is not a text")
    value.textValue
  }
}
