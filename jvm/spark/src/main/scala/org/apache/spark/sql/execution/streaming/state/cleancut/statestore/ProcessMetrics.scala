package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import com.codahale.metrics.{Gauge, MetricRegistry}

import org.apache.spark.SparkEnv
import org.apache.spark.metrics.source.Source

import io.cleancut.engine.memory.MemoryAccount
import io.cleancut.metrics.{MetricCatalog, MetricSource}

/** Metrics of a process with state, driver or executor, in Spark's metrics system. */
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

  @volatile private var registeredIn = Option.empty[SparkEnv]

  /** Registers the metrics of this process, also for a later application in it. */
  def begin(): Unit = {
    val env = Option(SparkEnv.get)
    if (env.exists(current => !registeredIn.exists(_ eq current))) synchronized {
      env.filter(current => !registeredIn.exists(_ eq current)).foreach { current =>
        registeredIn = env
        current.metricsSystem.registerSource(new ProcessMetrics)
      }
    }
  }
}
