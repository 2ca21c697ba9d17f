package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.LogEntries

import io.cleancut.base.Clock
import io.cleancut.coordinator.state.Begun
import io.cleancut.format.cut.Cut
import io.cleancut.protocol.OffsetEntry

/**
 * Plans an epoch without new input for a run that continues from a cut
 *
 *   - with in-flight rows. Spark by itself plans such an epoch only after another epoch of the same
 *     run. The rows would wait for new input, and a run that ends with its input would leave them
 *     in flight.
 *   - while the previous run may still plan the next epoch. This run executes the entry that was
 *     created first, and no other entry of that epoch can be created.
 *
 * A run with the trigger Once ends with its first epoch. No epoch is planned for it here: its epoch
 * processes the new input and the in-flight rows.
 */
object DrainPlan {
  private val logger = LoggerFactory.getLogger(getClass)

  /**
   * Called before Spark reads the offset log.
   *
   * @param offsets
   *   `<checkpointLocation>/offsets`, and its file manager
   * @return
   *   the planned epoch
   */
  def write(begun: Begun, offsets: Path, files: CheckpointFileManager, clock: Clock): Option[Long] =
    for {
      cut <- begun.cut
      if (isLeft(cut) || !begun.isAlone) && !begun.isSingleEpoch && cut.offsets.nonEmpty
      // The epoch may have been planned when the previous run ended.
      if !files.exists(new Path(offsets, (cut.epoch + 1).toString))
      epoch <- after(cut, offsets, files, clock)
    } yield epoch

  /**
   * Plans the epoch after a cut; None if it is planned already.
   *
   * @param offsets
   *   as in [[write]]
   */
  def after(
      cut: Cut,
      offsets: Path,
      files: CheckpointFileManager,
      clock: Clock
  ): Option[Long] = {
    val epoch = cut.epoch + 1
    val entry = OffsetEntry.withoutInput(cut.offsets, cut.commit, clock.wallMs())
    Option.when(LogEntries.create(new Path(offsets, epoch.toString), entry, files)) {
      logger.info(s"Planned epoch $epoch without new input after epoch ${cut.epoch} of $offsets")
      epoch
    }
  }

  private def isLeft(cut: Cut): Boolean = cut.channels.exists(_.deferred.rows > 0)
}
