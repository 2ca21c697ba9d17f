package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

/**
 * What is asked wherever Spark comes in: whether our jars go with each other, and with this Spark.
 *
 * Neither this object nor [[SharedJar]] needs anything of the shared jar, not even to be verified.
 */
object InstalledJars {

  /** Throws CLEANCUT_VERSION_UNSUPPORTED. */
  def check(): Unit = {
    SharedJar.check()
    SparkLine.check()
  }
}
