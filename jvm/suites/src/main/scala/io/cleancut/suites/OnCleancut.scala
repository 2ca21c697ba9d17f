package io.cleancut.suites

import org.apache.spark.SparkConf
import org.apache.spark.sql.internal.SQLConf.STATE_STORE_PROVIDER_CLASS
import org.apache.spark.sql.internal.StaticSQLConf.SPARK_SESSION_EXTENSIONS
import org.apache.spark.sql.test.SharedSparkSession

import io.cleancut.{CleancutExtensions, CleancutStateStoreProvider}

/**
 * A suite of Spark with the provider and the session extension that `cleancut.configure` sets,
 * instead of any provider that its tests set.
 */
trait OnCleancut extends SharedSparkSession {

  // Some suites read their configuration in their constructor.
  private def providerClass =
    STATE_STORE_PROVIDER_CLASS.key -> classOf[CleancutStateStoreProvider].getName

  abstract override protected def sparkConf: SparkConf =
    super.sparkConf
      .set(providerClass._1, providerClass._2)
      .set(SPARK_SESSION_EXTENSIONS.key, classOf[CleancutExtensions].getName)

  // Many tests set the provider that they were written for.
  abstract override protected def withSQLConf[T](pairs: (String, String)*)(f: => T): T =
    super.withSQLConf(
      pairs.map(pair => if (pair._1 == providerClass._1) providerClass else pair): _*
    )(
      f
    )
}
