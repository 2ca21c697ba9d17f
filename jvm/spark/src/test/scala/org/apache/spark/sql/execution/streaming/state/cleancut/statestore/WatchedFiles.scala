package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataInputStream, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager

/** A file manager that calls a function of the test before each positioned read of a base. */
class WatchedFiles(path: Path, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {

  override def open(path: Path): FSDataInputStream =
    if (!path.getName.endsWith(".base")) super.open(path)
    else
      new FSDataInputStream(super.open(path)) {
        override def readFully(at: Long, into: Array[Byte], from: Int, count: Int): Unit = {
          WatchedFiles.beforeRead()
          super.readFully(at, into, from, count)
        }
      }
}

object WatchedFiles {
  @volatile var beforeRead: () => Unit = () => ()
}
