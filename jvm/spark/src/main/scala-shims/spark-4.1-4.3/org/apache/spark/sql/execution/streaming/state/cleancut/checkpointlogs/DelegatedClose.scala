package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** Closes the file manager behind another one with it. */
trait DelegatedClose extends CheckpointFileManager {
  protected def delegate: CheckpointFileManager

  override def close(): Unit = delegate.close()
}
