package io.cleancut.metrics

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.state.QueryFigures

class MetricCatalogSuite extends AnyFunSuite {
  // Prometheus' base units, and nouns of counts without a unit.
  private val Units = Seq("seconds", "bytes", "dollars_per_day")
  private val Counts =
    Seq(
      "epoch",
      "epochs",
      "rows",
      "operators",
      "savepoints",
      "stores",
      "executors",
      "generation",
      "hosts",
      "frames",
      "success"
    )

  test("names follow the rules of Prometheus") {
    assert(MetricCatalog.all.size > 40)
    MetricCatalog.all.foreach { metric =>
      assert(metric.name.matches("[a-z]+(_[a-z]+)*"))
      assert(metric.isCounter == metric.name.endsWith("_total"), metric)
      if (!metric.isCounter && !metric.name.startsWith("epochs_since_"))
        assert((Units ++ Counts).exists(unit => metric.name.endsWith(unit)), metric)
      assert(metric.help.endsWith("."), metric)
    }
  }

  test("metrics are in the order of the file, and each text is self-contained") {
    val declared =
      MetricCatalog.all.map(metric => MetricCatalog.json.indexOf(s"\"${metric.name}\": {"))
    assert(declared == declared.sorted)
    val openings = Seq("Of ", "That ", "The same", "Their ", "Those ", "What ", "When ")
    MetricCatalog.all.foreach(metric => assert(!openings.exists(metric.help.startsWith), metric))
  }

  test("Spark reports the metrics that are declared for a query, and no others") {
    val (counters, gauges) = MetricCatalog.of(MetricSource.Spark).partition(_.isCounter)
    assert(counters.map(_.name).toSet == QueryFigures.Counters)
    // These two come from the query's progress.
    val ofProgress = Set("state_rows", "state_memory_bytes")
    assert(gauges.map(_.name).toSet == QueryFigures.Gauges ++ ofProgress)
  }

  test("a metric without a type, a help text or a known source is refused") {
    def parse(kind: String, help: String, from: String) = MetricCatalog.parse(
      s"""{"a": {"type": "$kind", "help": "$help", "labels": [], "from": [$from]}}"""
    )
    assert(parse("gauge", "A.", "\"exporter\"").map(_.sources) == Seq(Set(MetricSource.Exporter)))
    assertThrows[IllegalArgumentException](parse("histogram", "A.", "\"exporter\""))
    assertThrows[IllegalArgumentException](parse("gauge", "", "\"exporter\""))
    assertThrows[IllegalArgumentException](parse("gauge", "A.", ""))
    assertThrows[IllegalArgumentException](parse("gauge", "A.", "\"stars\""))
  }
}
