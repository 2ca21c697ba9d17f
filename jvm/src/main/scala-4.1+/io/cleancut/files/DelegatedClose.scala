package io.cleancut.files

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** Closes the file manager behind another one with it. */
private[files] trait DelegatedClose extends CheckpointFileManager {
  protected def delegate: CheckpointFileManager

  override def close(): Unit = delegate.close()
}
