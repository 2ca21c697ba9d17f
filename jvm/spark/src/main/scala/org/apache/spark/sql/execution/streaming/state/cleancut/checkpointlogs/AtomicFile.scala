package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.OutputStream

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** Writes files of a checkpoint completely or not at all. */
object AtomicFile {

  /**
   * @param write
   *   writes the content; an error leaves no file
   */
  def write(files: CheckpointFileManager, path: Path, overwrites: Boolean)(
      write: OutputStream => Unit
  ): Unit = {
    val out = files.createAtomic(path, overwrites)
    try {
      write(out)
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }
}
