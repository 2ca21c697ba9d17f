package io.cleancut

import scala.collection.mutable.WeakHashMap

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.streaming.state.cleancut.aggregation.AggregationRule
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators.ChannelRule
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
 * Cleancut's session extension, for `spark.sql.extensions`. It lets `transformWithState` run on
 * [[CleancutStateStoreProvider]], which Spark refuses by its name, puts channels into the plans of
 * queries whose epochs may be cut unaligned, and leaves every plan alone that keeps its state
 * elsewhere. It also gives that provider to the queries of a session that asks for it by the key
 * `realTimeMode`, refuses a query whose location or mode cannot work, compares queries with their
 * checkpoints if it asks for that by `checkCompatibility`, and makes `s3://` readable for Spark's
 * reader of state ([[CleancutFileSystem]]).
 */
class CleancutExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    InstalledJars.check()
    if (CleancutExtensions.isNew(extensions)) {
      // Spark applies them from the last to the first.
      extensions.injectColumnar(_ => AggregationRule.injection)
      extensions.injectColumnar(_ => ProviderRule.injection)
      extensions.injectColumnar(_ => TransformWithStateRule.injection)
      extensions.injectColumnar(_ => ChannelRule.injection)
      extensions.injectColumnar(_ => SequenceRule.injection)
      extensions.injectCheckRule(SessionProvider.check)
      extensions.injectHintResolutionRule(StartRefusalRule.OfStatement(_))
      extensions.injectCheckRule(StartRefusalRule.check)
      extensions.injectCheckRule(StartCheckRule.check)
    }
    CheckpointScheme.register()
    CutsUi.attach()
  }
}

private object CleancutExtensions {
  // A session that runs already may be given the extension several times.
  private val known = new WeakHashMap[SparkSessionExtensions, Unit]

  def isNew(extensions: SparkSessionExtensions): Boolean =
    synchronized(known.put(extensions, ()).isEmpty)
}
