package io.cleancut.format

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/** The content of `format.json`, which describes its directory. */
final case class FormatNote(queryId: Option[String]) {
  def toJson: Array[Byte] = {
    val node = FormatNote.mapper.createObjectNode()
    node.put("format", FormatNote.Format)
    node.put(FormatNote.VersionField, FormatNote.Version)
    node.put("queryId", queryId.orNull)
    FormatNote.mapper.writeValueAsBytes(node)
  }
}

object FormatNote {
  private val Format = "cleancut"

  // Builds before release 0.1.0 called it formatVersion.
  private val VersionField = "version"
  private val Version = 1
  private val mapper = new ObjectMapper

  /** The supported format, for messages. */
  val Supported: String = s"format $Format, version $Version"

  /** The parsed content, or a description of the problem. */
  def parse(bytes: Array[Byte]): Either[String, FormatNote] =
    readObject(bytes) match {
      case None       => Left("no JSON object")
      case Some(node) =>
        val format = node.path("format").asText
        val version = node.path(VersionField)
        if (format == Format && version.asInt(-1) == Version)
          Right(FormatNote(text(node, "queryId")))
        else if (node.has("formatVersion")) Left(FormatMagic.Unreleased)
        else Left(s"format $format, version ${version.asInt(-1)}")
    }

  /** The query ID in Spark's `metadata` file of a checkpoint location. */
  def queryIdOf(metadata: Array[Byte]): Option[String] = readObject(metadata).flatMap(text(_, "id"))

  private def readObject(bytes: Array[Byte]): Option[JsonNode] =
    try Option(mapper.readTree(bytes)).filter(_.isObject)
    catch { case NonFatal(_) => None }

  private def text(node: JsonNode, field: String): Option[String] =
    Option(node.get(field)).filter(_.isTextual).map(_.asText)
}
