package io.cleancut.suites

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.StaticSQLConf.SPARK_SESSION_EXTENSIONS

import io.cleancut.CleancutExtensions

/** A suite of queries with `transformWithState`, which Spark plans for RocksDB alone. */
trait WithExtensions extends OnCleancut {
  abstract override protected def sparkConf: SparkConf =
    super.sparkConf.set(SPARK_SESSION_EXTENSIONS.key, classOf[CleancutExtensions].getName)
}
