package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.Locale
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference

import com.codahale.metrics.{Counter, Gauge, MetricRegistry}

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.source.Source
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.streaming.StateOperatorProgress

import io.cleancut.base.Clock
import io.cleancut.coordinator.QueryCoordinator
import io.cleancut.coordinator.state.QueryFigures
import io.cleancut.history.SlowEpochs
import io.cleancut.metrics.{Metric, MetricCatalog, MetricSource}
import io.cleancut.objectstore.RequestKind

/**
 * Metrics of a query with cuts in Spark's metrics system, in addition to those of Spark and with
 * the same setting. They make no request, and one snapshot serves all metrics of a scrape.
 *
 * @param cuts
 *   coordinator of its run, until the run has ended
 * @param operators
 *   operators in the query's last progress
 */
final private[coordination] class CutMetrics(
    override val sourceName: String,
    cuts: () => Option[QueryCoordinator],
    operators: () => Seq[StateOperatorProgress],
    clock: Clock = Clock.System
) extends Source {
  import CutMetrics._

  override val metricRegistry: MetricRegistry = new MetricRegistry

  private val seen = new AtomicReference(Option.empty[Seen])

  MetricCatalog.of(MetricSource.Spark).foreach(add)

  private def add(metric: Metric): Unit = {
    val name = metric.name
    if (metric.isCounter) count(name)(_.count(name))
    else if (QueryFigures.Gauges(name)) gauge(name)(currentFigures().flatMap(_.gauge(name)))
    else gauge(name)(ofProgress(name))
    if (metric.labels.contains("kind"))
      RequestKind.values.foreach(kind => count(nameOf(name, kind.name))(ofKind(name, kind)))
    if (metric.labels.contains("cause"))
      SlowEpochs.Kinds.foreach(cause => count(nameOf(name, cause))(_.slow(cause)))
  }

  private def gauge(name: String)(value: => Option[Double]): Unit = {
    val gauge: Gauge[Double] = () => value.getOrElse(Double.NaN)
    metricRegistry.register(name, gauge)
    ()
  }

  private def count(name: String)(value: QueryFigures => Long): Unit = {
    metricRegistry.register(
      name,
      new Counter {
        override def getCount: Long = currentFigures().fold(0L)(value)
      }
    )
    ()
  }

  private def ofProgress(name: String): Option[Double] = {
    val entries = operators()
    Option.when(entries.nonEmpty)(progress(name)(entries).toDouble)
  }

  /** The figures of a moment ago. */
  private def currentFigures(): Option[QueryFigures] = {
    val nowNs = clock.monotonicNs()
    val known = seen.get().filter(nowNs - _.atNs < FreshNs)
    known.fold {
      val latest = cuts().flatMap(_.figures)
      seen.set(Some(Seen(latest, nowNs)))
      latest
    }(_.figures)
  }
}

private[coordination] object CutMetrics {
  private val FreshNs = TimeUnit.SECONDS.toNanos(1)

  final private case class Seen(figures: Option[QueryFigures], atNs: Long)

  private val progress: Map[String, Seq[StateOperatorProgress] => Long] = Map(
    "state_rows" -> (_.map(_.numRowsTotal).sum),
    "state_memory_bytes" -> (_.map(_.memoryUsedBytes).sum)
  )

  private def ofKind(name: String, kind: RequestKind)(figures: QueryFigures): Long = {
    val counts = figures.requests(kind)
    name match {
      case "requests_total"         => counts.requests
      case "request_retries_total"  => counts.retries
      case "request_failures_total" => counts.failures
    }
  }

  /** Spark's metrics have no labels, so the kind is part of the name. */
  private[coordination] def nameOf(metric: String, kind: String): String = {
    val words = kind.replace('-', '_').replaceAll("([A-Z])", "_$1").toLowerCase(Locale.ROOT)
    s"${metric.stripSuffix("_total")}_${words}_total"
  }

  private var registered = Map.empty[String, Source]

  /** Registers the metrics of a run, if Spark's query metrics are enabled in its session. */
  def begin(query: StreamExecution, location: String): Unit =
    if (query.sparkSession.sessionState.conf.streamingMetricsEnabled) {
      val runId = query.runId.toString
      val name = s"cleancut.${Option(query.name).getOrElse(query.id)}"
      def operators = Option(query.lastProgress).toSeq.flatMap(_.stateOperators)
      val source = new CutMetrics(name, () => DriverCuts.of(location, runId), () => operators)
      val isNew = synchronized {
        val isNew = !registered.contains(runId)
        if (isNew) registered += runId -> source
        isNew
      }
      if (isNew) SparkEnv.get.metricsSystem.registerSource(source)
    }

  def end(runId: String): Unit = {
    val known = synchronized {
      val source = registered.get(runId)
      registered -= runId
      source
    }
    for (source <- known; env <- Option(SparkEnv.get)) env.metricsSystem.removeSource(source)
  }
}
