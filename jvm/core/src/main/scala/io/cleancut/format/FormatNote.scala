package io.cleancut.format

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/**
 * The content of `format.json`: what the directory around it is.
 *
 * @param version
 *   the format version that a reader needs
 */
final case class FormatNote(queryId: Option[String], version: Int = FormatNote.Stores) {
  def toJson: Array[Byte] = {
    val node = FormatNote.mapper.createObjectNode()
    node.put("format", FormatNote.Format)
    node.put("formatVersion", version)
    node.put("queryId", queryId.orNull)
    FormatNote.mapper.writeValueAsBytes(node)
  }
}

object FormatNote {
  private val Format = "cleancut"

  /** Frames in files of their stores, and cuts of format version 1. */
  val Stores = 1

  /** Cuts of format version 2. */
  val Roots = 2

  /** The same, with bases that refer to other stores. */
  val Referring = 3

  /** The only version that a replaced marker gets. */
  val Latest: Int = Referring
  private val Versions = Seq(Stores, Roots, Referring)
  private val mapper = new ObjectMapper

  /** What a reader of this release accepts, for messages. */
  val Supported: String = s"format $Format, formatVersion ${Versions.head} to ${Versions.last}"

  /** The note, or a description of what was found instead. */
  def parse(bytes: Array[Byte]): Either[String, FormatNote] =
    readObject(bytes) match {
      case None       => Left("no JSON object")
      case Some(node) =>
        val format = node.path("format").asText
        val version = node.path("formatVersion").asInt(-1)
        if (format == Format && Versions.contains(version))
          Right(FormatNote(text(node, "queryId"), version))
        else Left(s"format $format, formatVersion $version")
    }

  /** The query's id out of the `metadata` file that Spark keeps in a checkpoint location. */
  def queryIdOf(metadata: Array[Byte]): Option[String] = readObject(metadata).flatMap(text(_, "id"))

  private def readObject(bytes: Array[Byte]): Option[JsonNode] =
    try Option(mapper.readTree(bytes)).filter(_.isObject)
    catch { case NonFatal(_) => None }

  private def text(node: JsonNode, field: String): Option[String] =
    Option(node.get(field)).filter(_.isTextual).map(_.asText)
}
