package io.cleancut.error

import scala.collection.immutable.SortedMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.JsonParser
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.Resources

/**
 * Every error class by its id, as the packaged JSON file declares them. Python reads the same file.
 */
object ErrorCatalog {
  val Resource = "error/cleancut-error-classes.json"

  lazy val classes: SortedMap[String, ErrorClass] = parse(json)

  /** The packaged file as it stands. */
  private[cleancut] def json: String = Resources.text(Resource)

  /** @throws IllegalArgumentException on a doubled id, an unknown kind or a missing field */
  private[error] def parse(json: String): SortedMap[String, ErrorClass] = {
    val mapper = new ObjectMapper
    mapper.enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
    val fields = mapper.readTree(json).properties.asScala
    SortedMap.from(fields.map(entry => entry.getKey -> errorClass(entry.getKey, entry.getValue)))
  }

  private def errorClass(id: String, body: JsonNode): ErrorClass = {
    def field(name: String): String =
      Option(body.get(name))
        .filter(_.isTextual)
        .map(_.textValue)
        .getOrElse(throw new IllegalArgumentException(s"Error class $id has no text $name."))
    val kind = ErrorKind
      .named(field("kind"))
      .getOrElse(throw new IllegalArgumentException(s"Error class $id: no kind ${field("kind")}."))
    ErrorClass(id, kind, field("message"), field("remedy"))
  }
}
