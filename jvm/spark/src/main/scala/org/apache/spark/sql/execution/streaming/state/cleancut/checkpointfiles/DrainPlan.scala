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
 * Plans an epoch without new input for a run that begins behind a cut
 *   - with rows in flight. By itself Spark plans such an epoch only behind another one of the same
 *     run: the rows would wait for new input, and a run that ends with its input would leave them
 *     where they are.
 *   - while the run before may still plan the next epoch. Whichever entry comes first, this run
 *     runs that one, and no other can come.
 *
 * A run with the trigger Once ends with its first epoch. It plans none here: its epoch has the new
 * input, and the rows in flight too.
 */
object DrainPlan {
  private val logger = LoggerFactory.getLogger(getClass)

  /**
   * To be called before Spark reads the log of offsets.
   *
   * @param offsets
   *   `<checkpointLocation>/offsets`, and what writes there
   * @return
   *   the epoch that it has planned
   */
  def write(begun: Begun, offsets: Path, files: CheckpointFileManager, clock: Clock): Option[Long] =
    for {
      cut <- begun.cut
      isNeeded = (isLeft(cut) || !begun.isAlone) && !begun.isSingleEpoch
      epoch <- Option.when(isNeeded && cut.offsets.nonEmpty)(cut.epoch + 1)
      path = new Path(offsets, epoch.toString)
      // It may have been planned when the run before ended.
      if !files.exists(path)
      entry = OffsetEntry.withoutInput(cut.offsets, cut.commit, clock.wallMs())
      if LogEntries.create(path, entry, files)
    } yield {
      logger.info(s"Planned epoch $epoch without new input, behind epoch ${cut.epoch} of $offsets")
      epoch
    }

  private def isLeft(cut: Cut): Boolean = cut.channels.exists(_.deferred.rows > 0)
}
