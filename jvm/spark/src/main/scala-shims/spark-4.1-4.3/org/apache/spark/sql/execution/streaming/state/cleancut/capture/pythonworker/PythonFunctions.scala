package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import org.apache.spark.sql.catalyst.plans.logical.TransformWithStateInPySpark
import org.apache.spark.sql.execution.python.streaming.TransformWithStateInPySparkExec

/** How PySpark calls the functions of `transformWithState`. */
private[pythonworker] object PythonFunctions {
  def kindOf(operator: TransformWithStateInPySparkExec): WorkerCommand.Kind = {
    import TransformWithStateInPySpark.UserFacingDataType.PANDAS
    if (operator.userFacingDataType == PANDAS) WorkerCommand.Frames else WorkerCommand.Rows
  }
}
