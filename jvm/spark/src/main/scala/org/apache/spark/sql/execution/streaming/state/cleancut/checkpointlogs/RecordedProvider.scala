package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.fs.Path

import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.base.ClassNames
import io.cleancut.conf.Settings
import io.cleancut.error.Errors
import io.cleancut.protocol.OffsetEntry

/**
 * The state store provider with which a checkpoint continues: Spark reads it from the newest entry
 * of its offset log and ignores the session's setting.
 */
object RecordedProvider extends Logging {
  private val State = "state"

  /**
   * Checks the provider before a query starts, and refuses or warns.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_PROVIDER_MISMATCH
   */
  def check(checkpoint: Path, files: CheckpointFileManager, settings: Settings): Unit =
    for {
      provider <- of(checkpoint, files)
      if provider != ClassNames.StateStoreProvider && hasState(checkpoint, files)
    } {
      val mismatch = Errors.providerMismatch(
        checkpoint.toString,
        provider,
        "the query began with that provider, and Spark continues with it regardless of the session"
      )
      if (settings.requiresProvider) throw mismatch
      logWarning(mismatch.getMessage)
    }

  private def of(checkpoint: Path, files: CheckpointFileManager): Option[String] = {
    val log = new Path(checkpoint, CheckpointLogs.Offsets)
    names(log, files).flatMap(_.toLongOption).maxOption.flatMap { epoch =>
      Using.resource(files.open(new Path(log, epoch.toString))) { entry =>
        OffsetEntry.provider(new String(entry.readAllBytes(), UTF_8))
      }
    }
  }

  /** Every operator with state has a directory; a query without state has none. */
  private def hasState(checkpoint: Path, files: CheckpointFileManager): Boolean =
    names(new Path(checkpoint, State), files).exists(_.toLongOption.isDefined)

  private def names(directory: Path, files: CheckpointFileManager): Seq[String] =
    try files.list(directory).toSeq.map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }
}
