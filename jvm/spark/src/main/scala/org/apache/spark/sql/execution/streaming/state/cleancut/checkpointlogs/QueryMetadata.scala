package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.error.Errors
import io.cleancut.format.FormatNote
import io.cleancut.format.cut.Cut

/**
 * Spark's file with the query ID. If it is missing, Spark silently creates a new ID and continues
 * as another query.
 */
object QueryMetadata {

  /**
   * Called before Spark reads the file.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_METADATA_MISSING; CLEANCUT_CUT_CORRUPTED if its query ID is not that of the last cut
   */
  def check(checkpoint: Path, last: Cut, files: CheckpointFileManager): Unit =
    last.run.queryId.foreach { query =>
      val path = new Path(checkpoint, CheckpointLogs.Metadata)
      read(path, files) match {
        case None        => throw Errors.metadataMissing(checkpoint.toString, path.toString, query)
        case Some(bytes) =>
          val stored = FormatNote.queryIdOf(bytes)
          if (!stored.contains(query)) {
            val id = stored.fold("it contains no query id")(id => s"its query id is $id")
            throw Errors.cutCorrupted(
              path.toString,
              s"$id, and the last cut has query id $query"
            )
          }
      }
    }

  private def read(path: Path, files: CheckpointFileManager): Option[Array[Byte]] =
    try Some(Using.resource(files.open(path))(_.readAllBytes()))
    catch { case _: FileNotFoundException => None }
}
