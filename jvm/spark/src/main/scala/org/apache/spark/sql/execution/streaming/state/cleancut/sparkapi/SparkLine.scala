package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.SPARK_VERSION

import io.cleancut.error.Errors

/**
 * Refuses a Spark that this jar was not built for. On another line its classes would still load,
 * and fail in the middle of a query where they first miss something.
 */
object SparkLine {
  private val Supported = Seq("4.0", "4.1", "4.2", "4.3")

  /** Its state stores have other iterators than those of all later releases of its line. */
  private val Unfit = "4.0.0"

  private val runsWith = {
    val lines = Supported.map(line => s"$line.x")
    s"${lines.init.mkString(", ")} or ${lines.last}, except $Unfit"
  }

  /** Throws CLEANCUT_VERSION_UNSUPPORTED. It refers to nothing that differs between lines. */
  def check(): Unit = check(SPARK_VERSION)

  private[cleancut] def check(running: String): Unit =
    if (!isOf(BuiltFor.Spark, running)) {
      val jar = Supported.find(isOf(_, running)).fold("")(line => s" Take cleancut-spark-$line.")
      throw Errors.versionUnsupported(
        s"This jar is cleancut-spark-${BuiltFor.Spark}, and Spark is $running.$jar",
        runsWith
      )
    }

  private def isOf(line: String, version: String): Boolean =
    version.startsWith(s"$line.") && version != Unfit && !version.startsWith(s"$Unfit-")
}
