package org.apache.spark.sql.execution.python

/** Aliases with the names of Spark 4.1. */
package object streaming {
  type TransformWithStateInPySparkExec = TransformWithStateInPandasExec
}
