package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import scala.annotation.unused

import org.apache.spark.sql.streaming.Trigger

/** Real-time mode. This Spark line does not have it. */
private[cleancut] object RealTime {
  def is(@unused trigger: Trigger): Boolean = false
}
