package io.cleancut

import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.execution.streaming.state.cleancut.TransformWithStateRule

/**
 * Cleancut's session extension, for `spark.sql.extensions`. It lets `transformWithState` run on
 * [[CleancutStateStoreProvider]], which Spark refuses by its name, and leaves every plan alone that
 * keeps its state elsewhere.
 */
class CleancutExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit =
    extensions.injectColumnar(_ => TransformWithStateRule.injection)
}
