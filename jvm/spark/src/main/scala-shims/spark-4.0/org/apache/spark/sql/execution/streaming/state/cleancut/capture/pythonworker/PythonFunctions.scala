package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import scala.annotation.unused

import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec

/**
 * How PySpark calls the functions of `transformWithState`; this Spark version only has the pandas
 * variant.
 */
private[pythonworker] object PythonFunctions {
  def kindOf(@unused operator: TransformWithStateInPySparkExec): WorkerCommand.Kind =
    WorkerCommand.Frames
}
