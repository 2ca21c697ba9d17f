package io.cleancut.metrics

/** Renders [[MetricCatalog]] as `docs/reference/metrics.md`. */
object MetricsDoc {

  def markdown: String = {
    val header =
      s"""|# Metrics
          |
          |Generated from `cleancut-metrics.json` by `make docs`. [How to scrape them, and what to
          |be told of](../operations/monitoring.md) is another page.
          |
          || told by | what that is | what a metric is called there |
          ||---|---|---|
          |${MetricTeller.values.map(place).mkString}
          |`store` and `driver` tell the query by the labels `query` (its id) and `location`, and
          |the labels below. Spark has no labels: there one figure stands for all, the sum of sizes
          |and counts, else the greatest. The counts of requests are there for each kind, too, as
          |`requests_get_range_total`, and those of slow epochs for each cause, as
          |`slow_epochs_straggler_total`. For Spark's Prometheus endpoint the names of both become
          |`metrics_<namespace>_driver_cleancut_<query>_<name>_Value`, and those of counters end in
          |`_Count`.
          |
          |A counter begins at 0 with whoever tells it. A gauge of what is not known is not told;
          |Spark has to tell something, and tells NaN.
          |
          || name | type | meaning | labels | told by |
          ||---|---|---|---|---|
          |""".stripMargin
    header + MetricCatalog.all.map(row).mkString
  }

  private def place(teller: MetricTeller): String = {
    val (what, name) = teller match {
      case MetricTeller.Spark =>
        (
          "Spark's metrics system in the driver, a source for each query that runs",
          "cleancut.<query>.<name>"
        )
      case MetricTeller.Process =>
        ("the same, a source in each process, driver and executors", "cleancut.<name>")
      case MetricTeller.Store  => ("`cleancut exporter`, from the checkpoint", "cleancut_<name>")
      case MetricTeller.Driver => ("`cleancut.serve_metrics`, in the driver", "cleancut_<name>")
    }
    s"| `${teller.name}` | $what | `$name` |\n"
  }

  private def row(metric: Metric): String = {
    val kind = if (metric.isCounter) "counter" else "gauge"
    val tellers = MetricTeller.values.filter(metric.tellers).map(_.name).mkString(", ")
    s"| `${metric.name}` | $kind | ${metric.help} | ${metric.labels.mkString(", ")} | $tellers |\n"
  }
}
