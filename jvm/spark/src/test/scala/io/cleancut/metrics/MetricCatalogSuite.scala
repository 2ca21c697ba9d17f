package io.cleancut.metrics

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.QueryFigures

class MetricCatalogSuite extends AnyFunSuite {
  // What Prometheus calls base units, and what has none.
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
      if (!metric.isCounter)
        assert((Units ++ Counts).exists(unit => metric.name.endsWith(unit)), metric)
      assert(metric.help.endsWith("."), metric)
    }
  }

  test("what is declared for a query in Spark is told, and nothing else") {
    val (counters, gauges) = MetricCatalog.of(MetricTeller.Spark).partition(_.isCounter)
    assert(counters.map(_.name).toSet == QueryFigures.Counters)
    // These two come from the query's progress.
    val ofProgress = Set("state_rows", "state_memory_bytes")
    assert(gauges.map(_.name).toSet == QueryFigures.Gauges ++ ofProgress)
  }

  test("what nobody can tell is refused") {
    def parse(kind: String, help: String, from: String) = MetricCatalog.parse(
      s"""{"a": {"type": "$kind", "help": "$help", "labels": [], "from": [$from]}}"""
    )
    assert(parse("gauge", "A.", "\"store\"").map(_.tellers) == Seq(Set(MetricTeller.Store)))
    assertThrows[IllegalArgumentException](parse("histogram", "A.", "\"store\""))
    assertThrows[IllegalArgumentException](parse("gauge", "", "\"store\""))
    assertThrows[IllegalArgumentException](parse("gauge", "A.", ""))
    assertThrows[IllegalArgumentException](parse("gauge", "A.", "\"stars\""))
  }
}
