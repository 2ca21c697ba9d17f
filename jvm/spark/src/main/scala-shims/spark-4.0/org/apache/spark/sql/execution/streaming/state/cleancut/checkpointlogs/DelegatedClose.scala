package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** Spark never closes file managers in this version. */
trait DelegatedClose extends CheckpointFileManager {
  protected def delegate: CheckpointFileManager
}
