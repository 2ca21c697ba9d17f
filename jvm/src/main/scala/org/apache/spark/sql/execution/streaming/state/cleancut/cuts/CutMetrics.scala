package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.source.Source
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution

import io.cleancut.cuts.QueryCuts

/**
 * What Spark's metrics system tells of a query whose epochs are committed by cuts, beside what
 * Spark itself tells of it there, and under the same setting.
 */
final private class CutMetrics private (
    override val sourceName: String,
    cuts: () => Option[QueryCuts]
) extends Source {
  import CutMetrics.Unknown

  override val metricRegistry: MetricRegistry = new MetricRegistry

  private def add(name: String)(value: QueryCuts => Option[Long]): Unit = {
    val gauge: Gauge[Long] = () => cuts().flatMap(value).getOrElse(Unknown)
    metricRegistry.register(name, gauge)
    ()
  }

  add("committed-epoch")(_.committed)
  add("proven-epoch")(_.proven.map(_.epoch))
  add("proven-time")(_.proven.map(_.provenMs))
}

private[cuts] object CutMetrics {

  /** Where there is nothing to tell. */
  private val Unknown = -1L

  private var registered = Map.empty[String, Source]

  /** Tells of a run from now on, if its session has Spark tell of queries. */
  def begin(query: StreamExecution, location: String): Unit =
    if (query.sparkSession.sessionState.conf.streamingMetricsEnabled) {
      val runId = query.runId.toString
      val name = s"cleancut.${Option(query.name).getOrElse(query.id)}"
      val source = new CutMetrics(name, () => DriverCuts.of(location, runId))
      val isNew = synchronized {
        val isNew = !registered.contains(runId)
        if (isNew) registered += runId -> source
        isNew
      }
      if (isNew) SparkEnv.get.metricsSystem.registerSource(source)
    }

  def end(runId: String): Unit = {
    val known = synchronized {
      val found = registered.get(runId)
      registered -= runId
      found
    }
    for (source <- known; env <- Option(SparkEnv.get)) env.metricsSystem.removeSource(source)
  }
}
