package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

/** Spark 4.2 only knows combined maintenance. */
private[cleancut] trait SparkProviderApi {
  protected def writeDueBase(): Unit

  protected def deleteOldFrames(): Unit
}
