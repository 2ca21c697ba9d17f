package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.source.Source

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.metrics.{MetricCatalog, MetricSource}

/** What Spark's metrics system tells of a process that keeps state, driver or executor. */
final private class ProcessMetrics extends Source {
  override val sourceName: String = "cleancut"
  override val metricRegistry: MetricRegistry = new MetricRegistry

  MetricCatalog.of(MetricSource.Process).foreach { metric =>
    val value = ProcessMetrics.values(metric.name)
    val gauge: Gauge[Long] = () => value(MemoryAccount.process)
    metricRegistry.register(metric.name, gauge)
  }
}

private[statestore] object ProcessMetrics {
  private val values: Map[String, MemoryAccount => Long] = Map(
    "memory_resident_bytes" -> (_.residentBytes),
    "memory_mapped_bytes" -> (_.mappedBytes),
    "memory_limit_bytes" -> (_.boundBytes)
  )

  @volatile private var toldIn = Option.empty[SparkEnv]

  /** Tells of this process from now on, also where another application follows in it. */
  def begin(): Unit = {
    val env = Option(SparkEnv.get)
    if (env.exists(of => !toldIn.exists(_ eq of))) synchronized {
      env.filter(of => !toldIn.exists(_ eq of)).foreach { of =>
        toldIn = env
        of.metricsSystem.registerSource(new ProcessMetrics)
      }
    }
  }
}
