package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

/**
 * Checks, at every entry point from Spark, that Cleancut's jars match each other and this Spark.
 *
 * Neither this object nor [[SharedJar]] requires the shared jar, not even for verification.
 */
object InstalledJars {

  /** Throws CLEANCUT_VERSION_UNSUPPORTED. */
  def check(): Unit = {
    SharedJar.check()
    SparkLine.check()
  }
}
