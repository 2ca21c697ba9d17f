package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** Closes the wrapped file manager. */
trait DelegatedClose extends CheckpointFileManager {
  protected def delegate: CheckpointFileManager

  override def close(): Unit = delegate.close()
}
