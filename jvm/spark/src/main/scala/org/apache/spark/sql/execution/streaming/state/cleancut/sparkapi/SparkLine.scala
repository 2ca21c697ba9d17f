package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.SPARK_VERSION

import io.cleancut.error.Errors

/**
 * Refuses a Spark version that this jar was not built for. On another line its classes would still
 * load, but fail later at the first missing class or method.
 */
object SparkLine {
  private val Supported = Seq("4.0", "4.1", "4.2", "4.3")

  /** Its state stores have other iterators than all later releases of its line. */
  private val Excluded = "4.0.0"

  private val runsWith = {
    val lines = Supported.map(line => s"$line.x")
    s"${lines.init.mkString(", ")} or ${lines.last}, except $Excluded"
  }

  /** Throws CLEANCUT_VERSION_UNSUPPORTED. It uses nothing that differs between lines. */
  def check(): Unit = check(SPARK_VERSION)

  private[cleancut] def check(running: String): Unit =
    if (!matches(BuiltFor.Spark, running)) {
      val advice =
        Supported.find(matches(_, running)).fold("")(line => s" Use cleancut-spark-$line.")
      throw Errors.versionUnsupported(
        s"This jar is cleancut-spark-${BuiltFor.Spark}, but Spark is $running.$advice",
        runsWith
      )
    }

  private def matches(line: String, version: String): Boolean =
    version.startsWith(s"$line.") && version != Excluded && !version.startsWith(s"$Excluded-")
}
