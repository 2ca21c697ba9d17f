package io.cleancut.docs

import io.cleancut.metrics.{Metric, MetricCatalog, MetricSource}

/** Renders [[MetricCatalog]] as `docs/reference/metrics.md`. */
object MetricsDoc {

  def markdown: String = {
    val sources =
      """|# Metrics
         |
         |Generated from `cleancut-metrics.json` by `make docs`.
         |[Monitoring](../operate/monitoring.md) describes the endpoints and the alerts.
         |
         || source | description | name of a metric there |
         ||---|---|---|
         |""".stripMargin
    val labels =
      """|
         |The `exporter` and the `driver` add the labels `query` (its ID) and `location` to the
         |labels below. Spark has no labels: a metric there is the sum over all label values for
         |sizes and counts, and the maximum otherwise. Spark also has one metric for each kind of
         |request, such as `requests_get_range_total`, and for each cause of slow epochs, such as
         |`slow_epochs_straggler_total`. Spark's Prometheus endpoint exposes a gauge as
         |`metrics_<namespace>_driver_cleancut_<query>_<name>_Value`, and a counter with the suffix
         |`_Count`.
         |
         |A counter starts at 0 with its source. A gauge whose value is unknown is absent; in
         |Spark it is NaN.
         |
         || name | type | meaning | labels | sources |
         ||---|---|---|---|---|
         |""".stripMargin
    sources + MetricSource.values.map(place).mkString + labels + MetricCatalog.all.map(row).mkString
  }

  private def place(source: MetricSource): String = {
    val (description, name) = source match {
      case MetricSource.Spark =>
        (
          "Spark's metrics system in the driver, one source per running query",
          "cleancut.<query>.<name>"
        )
      case MetricSource.Process =>
        ("Spark's metrics system, one source per process (driver, executors)", "cleancut.<name>")
      case MetricSource.Exporter =>
        ("`cleancut exporter`, which reads the checkpoint", "cleancut_<name>")
      case MetricSource.Driver => ("`cleancut.serve_metrics`, in the driver", "cleancut_<name>")
    }
    s"| `${source.name}` | $description | `$name` |\n"
  }

  private def row(metric: Metric): String = {
    val kind = if (metric.isCounter) "counter" else "gauge"
    val sources = MetricSource.values.filter(metric.sources).map(_.name).mkString(", ")
    s"| `${metric.name}` | $kind | ${metric.help} | ${metric.labels.mkString(", ")} | $sources |\n"
  }
}
