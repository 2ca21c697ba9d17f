package io.cleancut

import scala.collection.mutable.WeakHashMap

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.streaming.state.cleancut.aggregation.AggregationRule
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators.{
  ChannelRule,
  PythonWorkerRule
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.start.StartCheckRule
import org.apache.spark.sql.execution.streaming.state.cleancut.sequence.SequenceRule
import org.apache.spark.sql.execution.streaming.state.cleancut.session.{
  ProviderRule,
  SessionProvider,
  StartRefusalRule,
  TransformWithStateRule
}
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{
  CheckpointScheme,
  InstalledJars
}
import org.apache.spark.sql.execution.streaming.state.cleancut.ui.CutsUi

/**
 * Cleancut's session extension, for `spark.sql.extensions`.
 *
 * It allows `transformWithState` on [[CleancutStateStoreProvider]], which Spark refuses by its
 * name, and adds channels to the plans of queries whose epochs may be cut unaligned. Plans with
 * state in other providers stay unchanged.
 *
 * It also sets this provider for the queries of a session that requests it by the key
 * `realTimeMode`, refuses queries whose location or mode is not supported, compares queries with
 * their checkpoints if `checkCompatibility` is set, and registers `s3://` for Spark's state reader
 * ([[CleancutFileSystem]]).
 */
class CleancutExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    InstalledJars.check()
    if (CleancutExtensions.isNew(extensions)) {
      // Spark applies them in reverse order.
      extensions.injectColumnar(_ => AggregationRule.injection)
      extensions.injectColumnar(_ => ProviderRule.injection)
      extensions.injectColumnar(_ => TransformWithStateRule.injection)
      extensions.injectColumnar(_ => PythonWorkerRule.injection)
      extensions.injectColumnar(_ => ChannelRule.injection)
      extensions.injectColumnar(_ => SequenceRule.injection)
      extensions.injectCheckRule(SessionProvider.check)
      extensions.injectHintResolutionRule(StartRefusalRule.StatementCheck(_))
      extensions.injectCheckRule(StartRefusalRule.check)
      extensions.injectCheckRule(StartCheckRule.check)
    }
    CheckpointScheme.register()
    CutsUi.attach()
  }
}

private object CleancutExtensions {
  // An active session may receive the extension several times.
  private val known = new WeakHashMap[SparkSessionExtensions, Unit]

  def isNew(extensions: SparkSessionExtensions): Boolean =
    synchronized(known.put(extensions, ()).isEmpty)
}
