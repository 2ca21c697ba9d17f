package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.error.Errors
import io.cleancut.format.FormatNote
import io.cleancut.format.cut.Cut

/**
 * Spark's file with the id of the query. Where it is missing Spark makes a new one without a word,
 * and goes on as another query.
 */
object QueryMetadata {

  /**
   * To be called before Spark looks for the file.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_METADATA_MISSING, or CLEANCUT_CUT_CORRUPTED where it is not that of the last cut
   */
  def check(checkpoint: Path, last: Cut, files: CheckpointFileManager): Unit =
    last.run.queryId.foreach { query =>
      val path = new Path(checkpoint, CheckpointLogs.Metadata)
      read(path, files) match {
        case None        => throw Errors.metadataMissing(checkpoint.toString, path.toString, query)
        case Some(bytes) =>
          val found = FormatNote.queryIdOf(bytes)
          if (!found.contains(query)) {
            val id = found.fold("it holds no id of a query")(id => s"it is that of the query $id")
            throw Errors.cutCorrupted(
              path.toString,
              s"$id, and the last cut is of the query $query"
            )
          }
      }
    }

  private def read(path: Path, files: CheckpointFileManager): Option[Array[Byte]] =
    try Some(Using.resource(files.open(path))(_.readAllBytes()))
    catch { case _: FileNotFoundException => None }
}
