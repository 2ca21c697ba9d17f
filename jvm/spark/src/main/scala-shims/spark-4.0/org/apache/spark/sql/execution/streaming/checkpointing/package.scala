package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.execution.streaming

/** Aliases with the package names of Spark 4.1. On this line the classes are in `streaming`. */
package object checkpointing {
  type CheckpointFileManager = streaming.CheckpointFileManager
  val CheckpointFileManager: streaming.CheckpointFileManager.type = streaming.CheckpointFileManager
  type CommitLog = streaming.CommitLog
  type CommitMetadata = streaming.CommitMetadata
  val CommitMetadata: streaming.CommitMetadata.type = streaming.CommitMetadata
  type FileContextBasedCheckpointFileManager = streaming.FileContextBasedCheckpointFileManager
  type FileSystemBasedCheckpointFileManager = streaming.FileSystemBasedCheckpointFileManager
  type OffsetSeq = streaming.OffsetSeq
  val OffsetSeq: streaming.OffsetSeq.type = streaming.OffsetSeq
  type OffsetSeqLog = streaming.OffsetSeqLog
  type OffsetSeqMetadata = streaming.OffsetSeqMetadata
  val OffsetSeqMetadata: streaming.OffsetSeqMetadata.type = streaming.OffsetSeqMetadata
}
