package io.cleancut.suites

import org.apache.spark.SparkConf

import io.cleancut.conf.Keys

/** A suite that wants each of the changes that an epoch made to a key in the change feed. */
trait AllChanges extends OnCleancut {
  abstract override protected def sparkConf: SparkConf =
    super.sparkConf.set(Keys.ChangeFeed.name, "all")
}
