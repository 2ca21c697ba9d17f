package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import scala.annotation.unused

import org.apache.spark.sql.streaming.Trigger

/** Real-time mode, which this line of Spark does not have. */
private[cleancut] object RealTime {
  def is(@unused trigger: Trigger): Boolean = false
}
