package org.apache.spark.sql.execution.streaming.state.cleancut.store

/** Spark 4.2 knows maintenance as a whole only. */
private[cleancut] trait ProviderOfLine {
  protected def writeDueBase(): Unit

  protected def deleteOldFrames(): Unit
}
