package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

/** Entries of Spark's logs as files, read and written without Spark. */
object LogEntries {

  def read(path: Path, files: CheckpointFileManager): String =
    Using.resource(files.open(path))(in => new String(in.readAllBytes(), UTF_8))

  /** Writes an entry completely or not at all; returns whether it did not exist. */
  def create(path: Path, entry: String, files: CheckpointFileManager): Boolean = try {
    AtomicFile.write(files, path, overwrites = false)(_.write(entry.getBytes(UTF_8)))
    true
  } catch { case _: FileAlreadyExistsException => false }
}
