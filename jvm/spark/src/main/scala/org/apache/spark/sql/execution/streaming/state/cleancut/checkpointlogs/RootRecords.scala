package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.format.StoreLayout
import io.cleancut.format.cut.{Lineage, StoredSinkEpochs}

/** Small files below `<checkpointLocation>/cleancut`, which are replaced completely. */
final class RootRecords(checkpoint: Path, files: CheckpointFileManager) {
  private val root = new Path(checkpoint, StoreLayout.RootName)

  /**
   * The published epochs of a query whose epochs are not committed by cuts.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def sinks(): Option[StoredSinkEpochs] =
    read(StoredSinkEpochs.Name).map { case (path, bytes) => StoredSinkEpochs.parse(path, bytes) }

  def write(record: StoredSinkEpochs): Unit = write(StoredSinkEpochs.Name, record.toBytes)

  /**
   * The checkpoints that this one continues.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def lineage(): Lineage =
    read(Lineage.Name).fold(Lineage.Empty) { case (path, bytes) => Lineage.parse(path, bytes) }

  def write(lineage: Lineage): Unit =
    if (lineage.origins.isEmpty) files.delete(new Path(root, Lineage.Name))
    else write(Lineage.Name, lineage.toBytes)

  private def read(name: String): Option[(String, Array[Byte])] = {
    val path = new Path(root, name)
    Option.when(files.exists(path)) {
      path.toString -> Using.resource(files.open(path))(_.readAllBytes())
    }
  }

  private def write(name: String, bytes: Array[Byte]): Unit = {
    files.mkdirs(root)
    AtomicFile.write(files, new Path(root, name), overwrites = true)(_.write(bytes))
  }
}
