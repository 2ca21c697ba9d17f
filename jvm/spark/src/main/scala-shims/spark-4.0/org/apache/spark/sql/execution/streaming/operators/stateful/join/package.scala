package org.apache.spark.sql.execution.streaming.operators.stateful

import org.apache.spark.sql.execution.streaming

/** Aliases with the package names of Spark 4.1. On this line the classes are in `streaming`. */
package object join {
  type StreamingSymmetricHashJoinExec = streaming.StreamingSymmetricHashJoinExec
  val StreamingSymmetricHashJoinHelper: streaming.StreamingSymmetricHashJoinHelper.type =
    streaming.StreamingSymmetricHashJoinHelper
}
