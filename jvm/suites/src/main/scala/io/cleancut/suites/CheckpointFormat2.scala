package io.cleancut.suites

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION

/** A suite whose queries distinguish attempts at a store version by IDs. */
trait CheckpointFormat2 extends OnCleancut {
  abstract override protected def sparkConf: SparkConf =
    super.sparkConf.set(STATE_STORE_CHECKPOINT_FORMAT_VERSION.key, "2")
}
