package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.format.{CutLayout, StoreLayout}

/** Finds cuts through Spark's file managers, which support every checkpoint location. */
object StoredCuts {

  /** The last epoch of a checkpoint that has a cut. Makes one list request. */
  def lastEpoch(checkpoint: Path, files: CheckpointFileManager): Option[Long] = {
    val directory = new Path(checkpoint, s"${StoreLayout.RootName}/${CutLayout.Cuts}")
    val statuses =
      try files.list(directory).toSeq
      catch { case _: FileNotFoundException => Nil }
    statuses.flatMap(status => CutLayout.parseCut(status.getPath.getName)).maxOption
  }
}
