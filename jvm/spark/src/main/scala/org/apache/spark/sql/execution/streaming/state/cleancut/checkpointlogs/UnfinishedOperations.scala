package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs

import java.io.FileNotFoundException

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.coordinator.state.Begun
import io.cleancut.error.Errors
import io.cleancut.protocol.OffsetEntry

/**
 * Keeps a query from beginning behind an entry of the log of offsets that an act has made whose
 * epoch has no cut. For whoever owns the query, before Spark reads that log.
 *
 * The act may be about to write its cut, which wants its entries. But an act that leaves a number
 * unused has lost where a query has planned an epoch of that number: it cannot write the entry any
 * more without which it writes no cut. So that of its own epoch goes.
 */
object UnfinishedOperations {
  private val logger = LoggerFactory.getLogger(getClass)

  /**
   * @param offsets
   *   `<checkpointLocation>/offsets`, and what writes there
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OPERATION_INCOMPLETE
   */
  def check(begun: Begun, offsets: Path, files: CheckpointFileManager): Unit =
    if (begun.cut.isDefined) {
      val (ofActs, planned) = entriesAfter(begun.committed, offsets, files)
        .partition(of => OffsetEntry.isOfAct(of._2))
      def isQuerys(epoch: Long) = epoch <= begun.committed || planned.exists(_._1 == epoch)
      ofActs.foreach { case (epoch, entry) =>
        val isLost = OffsetEntry.unusedBefore(entry).exists(of => of < epoch && isQuerys(of))
        if (!isLost) {
          val act = OffsetEntry.act(entry).getOrElse("")
          throw Errors.operationIncomplete(offsets.getParent.toString, act, epoch)
        }
        logger.info(s"Epoch $epoch of $offsets was planned by an act that the query was before")
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
      act <- OffsetEntry.act(LogEntries.read(new Path(offsets, epoch.toString), files))
      if !committed.contains(epoch)
    } throw Errors.operationIncomplete(checkpoint.toString, act, epoch)
  }

  /** In their order. */
  private def entriesAfter(
      epoch: Long,
      offsets: Path,
      files: CheckpointFileManager
  ): Seq[(Long, String)] = epochsIn(offsets, files)
    .filter(_ > epoch)
    .map(of => of -> LogEntries.read(new Path(offsets, of.toString), files))

  private def epochsIn(log: Path, files: CheckpointFileManager): Seq[Long] = {
    val listed =
      try files.list(log).toSeq
      catch { case _: FileNotFoundException => Nil }
    listed.flatMap(_.getPath.getName.toLongOption).sorted
  }
}
