package io.cleancut.metrics

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.JsonParser
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.Resources

/**
 * A metric of a query or a process.
 *
 * @param name
 *   name by the rules of Prometheus: base units, `_total` for counters
 * @param isCounter
 *   whether it only grows while its source lives
 * @param labels
 *   labels in addition to those of the query; a source that cannot supply them reports one total
 * @param sources
 *   sources that report it
 */
final case class Metric(
    name: String,
    isCounter: Boolean,
    help: String,
    labels: Seq[String],
    sources: Set[MetricSource]
)

sealed abstract class MetricSource(val name: String)

object MetricSource {

  /** Spark's metrics system in the driver, one source per query. */
  case object Spark extends MetricSource("spark")

  /** Spark's metrics system, one source per process. */
  case object Process extends MetricSource("process")

  /** `cleancut exporter`, which reads the checkpoint. */
  case object Exporter extends MetricSource("exporter")

  /** `cleancut.serve_metrics`, in the driver. */
  case object Driver extends MetricSource("driver")

  val values: Seq[MetricSource] = Seq(Spark, Process, Exporter, Driver)
}

/** Every metric, as the packaged JSON file declares them. Python reads the same file. */
object MetricCatalog {
  val Resource = "metrics/cleancut-metrics.json"

  lazy val all: Seq[Metric] = parse(json)

  def of(source: MetricSource): Seq[Metric] = all.filter(_.sources(source))

  /** The packaged file, verbatim. */
  private[cleancut] def json: String = Resources.text(Resource)

  /** @throws IllegalArgumentException on an unknown type or source, or a missing field */
  private[metrics] def parse(json: String): Seq[Metric] = {
    val mapper = new ObjectMapper
    mapper.enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
    // By the iterator: a Scala view of the set maps to a set, which is unordered.
    val entries = mapper.readTree(json).properties.iterator.asScala
    entries.map(entry => metric(entry.getKey, entry.getValue)).toSeq
  }

  private def metric(metricName: String, body: JsonNode): Metric = {
    def wrong(what: String) = throw new IllegalArgumentException(s"Metric $metricName has $what.")
    def texts(field: String) = body.path(field).asScala.map(_.asText).toSeq
    val isCounter = body.path("type").asText match {
      case "counter" => true
      case "gauge"   => false
      case other     => wrong(s"the type $other")
    }
    val sources = texts("from").map { name =>
      MetricSource.values.find(_.name == name).getOrElse(wrong(s"the source $name"))
    }
    val help = body.path("help").asText
    if (help.isEmpty || sources.isEmpty) wrong("no help text or no source")
    Metric(metricName, isCounter, help, texts("labels"), sources.toSet)
  }
}
