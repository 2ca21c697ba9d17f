package io.cleancut.suites

import org.apache.spark.SparkConf

import io.cleancut.conf.Keys

/**
 * A suite of Spark's change feed, with `changeFeed=all`: Spark's providers report every change of a
 * key. The default, `last`, reports one change for each key and epoch, so that `read stream-stream
 * join state change feed` and `cdf integration - list state and TTL` would find fewer rows. The
 * limits page documents this under "Change feed".
 */
trait AllChanges extends OnCleancut {
  abstract override protected def sparkConf: SparkConf =
    super.sparkConf.set(Keys.ChangeFeed.name, "all")
}
