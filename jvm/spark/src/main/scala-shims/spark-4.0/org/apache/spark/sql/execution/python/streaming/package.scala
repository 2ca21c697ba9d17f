package org.apache.spark.sql.execution.python

/** What Spark 4.1 calls otherwise. */
package object streaming {
  type TransformWithStateInPySparkExec = TransformWithStateInPandasExec
}
