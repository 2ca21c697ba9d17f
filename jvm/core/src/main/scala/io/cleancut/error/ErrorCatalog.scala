package io.cleancut.error

import scala.collection.immutable.SortedMap
import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.JsonParser
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.Resources

/**
 * All error classes by ID. The packaged JSON file has the form of Spark's `error-conditions.json`:
 * `message` with `<parameters>`, and `sqlState`. Python has a copy of the file.
 */
object ErrorCatalog {
  val Resource = "error/cleancut-error-classes.json"

  lazy val classes: SortedMap[String, ErrorClass] = parse(json)

  /** The content of the packaged file. */
  private[cleancut] def json: String = Resources.text(Resource)

  /** @throws IllegalArgumentException on a duplicate id, an unknown kind or a missing field */
  private[error] def parse(json: String): SortedMap[String, ErrorClass] = {
    val mapper = new ObjectMapper
    mapper.enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
    val fields = mapper.readTree(json).properties.asScala
    SortedMap.from(fields.map(entry => entry.getKey -> errorClass(entry.getKey, entry.getValue)))
  }

  private def errorClass(id: String, body: JsonNode): ErrorClass = {
    def missing(name: String) = throw new IllegalArgumentException(s"Class $id has no text $name.")
    def field(name: String): String =
      Option(body.get(name)).filter(_.isTextual).fold(missing(name))(_.textValue)
    val kind = ErrorKind
      .named(field("kind"))
      .getOrElse(throw new IllegalArgumentException(s"Class $id: no kind ${field("kind")}."))
    val message = Option(body.get("message"))
      .filter(lines => lines.isArray && lines.size == 1 && lines.get(0).isTextual)
      .fold(missing("message"))(_.get(0).textValue)
    val runbook = Runbook(field("cause"), field("diagnose"), field("fix"))
    ErrorClass(id, kind, field("sqlState"), message, field("dataLoss"), runbook)
  }
}
