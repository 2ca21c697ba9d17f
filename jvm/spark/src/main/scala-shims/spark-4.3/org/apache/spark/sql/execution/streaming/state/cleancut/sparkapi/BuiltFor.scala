package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

private[cleancut] object BuiltFor {

  /** The Spark line that this jar is built for. */
  val Spark = "4.3"
}
