package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.StateStoreChangeDataReader

import io.cleancut.format.FrameKind

/** Spark's reader of its changelogs, of which only the type is used. */
abstract private[cleancut] class SparkChangeReader(
    context: StoreContext,
    familyName: String,
    startVersion: Long,
    endVersion: Long
) extends StateStoreChangeDataReader(
      context.request.id,
      CheckpointFileManager.create(new Path(context.files.location), context.request.hadoopConf),
      new Path(context.files.location),
      startVersion,
      endVersion,
      // Spark's codec is for Spark's files.
      null,
      context.request.conf,
      Some(familyName)
    ) {
  override protected val changelogSuffix: String = FrameKind.Delta.extension
}
