package org.apache.spark.sql.execution.streaming.state.cleancut.session

private[cleancut] object BuiltFor {

  /** The line of Spark whose interfaces this jar binds. */
  val Spark = "4.3"

  /** Whether rows on their way to a function in Python can be recalled. */
  val CapturesPython = true
}
