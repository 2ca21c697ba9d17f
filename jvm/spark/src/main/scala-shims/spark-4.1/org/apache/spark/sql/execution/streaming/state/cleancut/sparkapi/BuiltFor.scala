package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

private[cleancut] object BuiltFor {

  /** The line of Spark whose interfaces this jar binds. */
  val Spark = "4.1"
}
