package io.cleancut.files

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** File managers of this line of Spark are never closed. */
private[files] trait DelegatedClose extends CheckpointFileManager {
  protected def delegate: CheckpointFileManager
}
