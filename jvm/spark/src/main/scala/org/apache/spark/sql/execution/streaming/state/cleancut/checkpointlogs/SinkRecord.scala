package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.format.{StoreLayout, StoredSinkEpochs}

/**
 * The published epochs of a query whose epochs are not committed by cuts: a file of its checkpoint.
 * Cuts contain this record themselves.
 */
final class SinkRecord(checkpoint: Path, files: CheckpointFileManager) {
  private val root = new Path(checkpoint, StoreLayout.RootName)
  private val path = new Path(root, StoredSinkEpochs.Name)

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_DAMAGED
   */
  def read(): Option[StoredSinkEpochs] = Option.when(files.exists(path)) {
    val bytes = Using.resource(files.open(path))(_.readAllBytes())
    StoredSinkEpochs.parse(path.toString, bytes)
  }

  /** Replaces the file. */
  def write(record: StoredSinkEpochs): Unit = {
    files.mkdirs(root)
    val out = files.createAtomic(path, overwriteIfPossible = true)
    try {
      out.write(record.toBytes)
      out.close()
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  }
}
