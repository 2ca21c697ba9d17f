package io.cleancut.files

import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.cuts.{Begun, OffsetEntry}
import io.cleancut.error.Errors

/**
 * Keeps a query from beginning behind an entry of the log of offsets that an act has made whose
 * epoch has no cut. For whoever owns the query, before Spark reads that log.
 *
 * The act may be about to write its cut, so that only another act may take its entry away, which
 * needs a cut of that very epoch. But an act that leaves a number unused has lost where a query has
 * planned an epoch of that number: it cannot write the entry any more without which it writes no
 * cut.
 */
private[files] object UnfinishedActs {
  private val logger = LoggerFactory.getLogger(getClass)

  /**
   * @param offsets
   *   `<checkpointLocation>/offsets`, and what writes there
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_ACT_UNFINISHED
   */
  def check(begun: Begun, offsets: Path, files: CheckpointFileManager): Unit =
    if (begun.cut.isDefined && files.exists(offsets)) {
      val behind = files
        .list(offsets)
        .toSeq
        .flatMap(file => file.getPath.getName.toLongOption)
        .filter(_ > begun.committed)
        .map(epoch => epoch -> read(new Path(offsets, epoch.toString), files))
        .sortBy(_._1)
      val planned = behind.collect { case (epoch, entry) if !OffsetEntry.isOfAct(entry) => epoch }
      def hasLost(epoch: Long, entry: String) = OffsetEntry
        .unusedBefore(entry)
        .exists(of => of < epoch && (of <= begun.committed || planned.contains(of)))
      behind.filter(of => OffsetEntry.isOfAct(of._2)).foreach { case (epoch, entry) =>
        if (!hasLost(epoch, entry)) {
          throw Errors.actUnfinished(offsets.getParent.toString, OffsetEntry.act(entry), epoch)
        }
        logger.info(s"Epoch $epoch of $offsets was planned by an act that the query was before")
        files.delete(new Path(offsets, epoch.toString))
      }
    }

  private def read(path: Path, files: CheckpointFileManager): String =
    Using.resource(files.open(path))(in => new String(in.readAllBytes(), UTF_8))
}
