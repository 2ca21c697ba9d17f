package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** File managers of this line of Spark are never closed. */
trait DelegatedClose extends CheckpointFileManager {
  protected def delegate: CheckpointFileManager
}
