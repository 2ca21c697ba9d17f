package io.cleancut.metrics

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.core.JsonParser
import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

import io.cleancut.base.Resources

/**
 * One figure that is told of a query or a process.
 *
 * @param name
 *   by the rules of Prometheus: base units, `_total` for what only grows
 * @param isCounter
 *   whether it only grows, as long as its teller lives
 * @param labels
 *   beside those of the query; where there are none to be had, one figure stands for all
 * @param tellers
 *   who tells it
 */
final case class Metric(
    name: String,
    isCounter: Boolean,
    help: String,
    labels: Seq[String],
    tellers: Set[MetricTeller]
)

sealed abstract class MetricTeller(val name: String)

object MetricTeller {

  /** Spark's metrics system in the driver, for each query. */
  case object Spark extends MetricTeller("spark")

  /** The same, for each process. */
  case object Process extends MetricTeller("process")

  /** `cleancut exporter`, from the checkpoint. */
  case object Store extends MetricTeller("store")

  /** `cleancut.serve_metrics`, in the driver. */
  case object Driver extends MetricTeller("driver")

  val values: Seq[MetricTeller] = Seq(Spark, Process, Store, Driver)
}

/** Every metric, as the packaged JSON file declares them. Python reads the same file. */
object MetricCatalog {
  val Resource = "metrics/cleancut-metrics.json"

  lazy val all: Seq[Metric] = parse(json)

  def of(teller: MetricTeller): Seq[Metric] = all.filter(_.tellers(teller))

  /** The packaged file as it stands. */
  private[cleancut] def json: String = Resources.text(Resource)

  /** @throws IllegalArgumentException on an unknown type or teller, or a missing field */
  private[metrics] def parse(json: String): Seq[Metric] = {
    val mapper = new ObjectMapper
    mapper.enable(JsonParser.Feature.STRICT_DUPLICATE_DETECTION)
    mapper.readTree(json).properties.asScala.map(of => metric(of.getKey, of.getValue)).toSeq
  }

  private def metric(name: String, body: JsonNode): Metric = {
    def wrong(what: String) = throw new IllegalArgumentException(s"Metric $name has $what.")
    def texts(field: String) = body.path(field).asScala.map(_.asText).toSeq
    val isCounter = body.path("type").asText match {
      case "counter" => true
      case "gauge"   => false
      case other     => wrong(s"the type $other")
    }
    val tellers = texts("from").map { of =>
      MetricTeller.values.find(_.name == of).getOrElse(wrong(s"the teller $of"))
    }
    val help = body.path("help").asText
    if (help.isEmpty || tellers.isEmpty) wrong("no help, or nobody who tells it")
    Metric(name, isCounter, help, texts("labels"), tellers.toSet)
  }
}
