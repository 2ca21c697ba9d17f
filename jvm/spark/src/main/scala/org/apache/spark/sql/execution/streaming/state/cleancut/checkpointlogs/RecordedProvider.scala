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
 * The state store provider that a checkpoint goes on with: Spark takes it from the newest entry of
 * its offset log, whatever the session says.
 */
object RecordedProvider extends Logging {
  private val State = "state"

  /**
   * Looks before a query starts, and refuses or warns.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_PROVIDER_MISMATCH
   */
  def check(checkpoint: Path, files: CheckpointFileManager, settings: Settings): Unit =
    for {
      provider <- of(checkpoint, files)
      if provider != ClassNames.StateStoreProvider && hasState(checkpoint, files)
    } {
      val found = Errors.providerMismatch(
        checkpoint.toString,
        provider,
        "the query began with that provider, and Spark goes on with it whatever the session says"
      )
      if (settings.requiresProvider) throw found
      logWarning(found.getMessage)
    }

  private def of(checkpoint: Path, files: CheckpointFileManager): Option[String] = {
    val log = new Path(checkpoint, CheckpointLogs.Offsets)
    names(log, files).flatMap(_.toLongOption).maxOption.flatMap { epoch =>
      Using.resource(files.open(new Path(log, epoch.toString))) { entry =>
        OffsetEntry.provider(new String(entry.readAllBytes(), UTF_8))
      }
    }
  }

  /** Every operator with state has a directory; a query without any has none. */
  private def hasState(checkpoint: Path, files: CheckpointFileManager): Boolean =
    names(new Path(checkpoint, State), files).exists(_.toLongOption.isDefined)

  private def names(directory: Path, files: CheckpointFileManager): Seq[String] =
    try files.list(directory).toSeq.map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }
}
