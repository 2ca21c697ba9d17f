package org.apache.spark.sql.execution.streaming.operators.stateful

import org.apache.spark.sql.execution.streaming

/** Aliases with the package names of Spark 4.1. On this line the classes are in `streaming`. */
package object transformwithstate {
  val StateVariableType: streaming.StateVariableType.type = streaming.StateVariableType
  type TransformWithStateExec = streaming.TransformWithStateExec
  type TransformWithStateOperatorProperties = streaming.TransformWithStateOperatorProperties
  val TransformWithStateOperatorProperties: streaming.TransformWithStateOperatorProperties.type =
    streaming.TransformWithStateOperatorProperties
  type TransformWithStateVariableInfo = streaming.TransformWithStateVariableInfo
  val TransformWithStateVariableUtils: streaming.TransformWithStateVariableUtils.type =
    streaming.TransformWithStateVariableUtils
}
