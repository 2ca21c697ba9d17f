package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.coordinator.state.Begun
import io.cleancut.error.Errors
import io.cleancut.protocol.OffsetEntry

/**
 * Prevents a query from starting after an offset log entry of an operation whose epoch has no cut.
 * For the owner of the query, before Spark reads that log.
 *
 * The operation may be about to write its cut, which requires its entries. But an operation that
 * skips an epoch has failed if the query has planned that epoch: it can no longer write the entry
 * that its cut requires. In that case the entry of its own epoch is deleted.
 */
object UnfinishedOperations {
  private val logger = LoggerFactory.getLogger(getClass)

  /**
   * @param offsets
   *   `<checkpointLocation>/offsets`, and its file manager
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_INCOMPLETE
   */
  def check(begun: Begun, offsets: Path, files: CheckpointFileManager): Unit =
    if (begun.cut.isDefined) {
      val (ofActs, planned) = entriesAfter(begun.committed, offsets, files)
        .partition { case (_, entry) => OffsetEntry.isOfOperation(entry) }
      def isOfQuery(epoch: Long) = epoch <= begun.committed || planned.exists(_._1 == epoch)
      ofActs.foreach { case (epoch, entry) =>
        val isLost =
          OffsetEntry.unusedBefore(entry).exists(unused => unused < epoch && isOfQuery(unused))
        if (!isLost) {
          val operation = OffsetEntry.operation(entry).getOrElse("")
          throw Errors.operationIncomplete(offsets.getParent.toString, operation, epoch)
        }
        logger.info(
          s"Epoch $epoch of $offsets was planned by an operation that started after the query's " +
            "epoch"
        )
        files.delete(new Path(offsets, epoch.toString))
      }
    }

  /**
   * The same for a checkpoint without a cut, before a query starts: the last entry of the offset
   * log must not be that of an operation without an entry of the commit log.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_INCOMPLETE
   */
  def checkWithoutCut(checkpoint: Path, files: CheckpointFileManager): Unit = {
    val offsets = new Path(checkpoint, CheckpointLogs.Offsets)
    def committed = epochsIn(new Path(checkpoint, CheckpointLogs.Commits), files).lastOption
    for {
      epoch <- epochsIn(offsets, files).lastOption
      operation <- OffsetEntry.operation(LogEntries.read(new Path(offsets, epoch.toString), files))
      if !committed.contains(epoch)
    } throw Errors.operationIncomplete(checkpoint.toString, operation, epoch)
  }

  /** In their order. */
  private def entriesAfter(
      epoch: Long,
      offsets: Path,
      files: CheckpointFileManager
  ): Seq[(Long, String)] = epochsIn(offsets, files)
    .filter(_ > epoch)
    .map(epoch => epoch -> LogEntries.read(new Path(offsets, epoch.toString), files))

  private def epochsIn(log: Path, files: CheckpointFileManager): Seq[Long] = {
    val listed =
      try files.list(log).toSeq
      catch { case _: FileNotFoundException => Nil }
    listed.flatMap(_.getPath.getName.toLongOption).sorted
  }
}
