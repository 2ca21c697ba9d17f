package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.lang.StackWalker.Option.RETAIN_CLASS_REFERENCE
import java.util.ConcurrentModificationException

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{FileStreamSource, FileStreamSourceLog}

import io.cleancut.coordinator.state.Begun

/**
 * Adds an entry without files to the log of a file source, for a run that takes over from one which
 * may still work. A file source adds to its log before it plans an epoch, and takes for granted
 * that it is the only one: an entry that comes after it has read the log ends the query. The run
 * before plans no epoch any more (see [[DrainPlan]]), so that it may write one such entry at most;
 * and that either comes before this one, and is read with it, or not at all.
 */
object SourceFence {
  private val logger = LoggerFactory.getLogger(getClass)

  /** To be called in the thread that makes the source, before that reads its log. */
  def write(begun: Begun, log: Path): Unit =
    if (begun.cut.isDefined && !begun.isAlone && isOfFiles) {
      // The source's own class, which has the say in what its entries are called and have.
      val entries = new FileStreamSourceLog(
        FileStreamSourceLog.VERSION,
        SparkSession.active,
        log.toString
      )
      val next = entries.getLatestBatchId().fold(0L)(_ + 1)
      if (isAdded(entries, next)) logger.info(s"Added entry $next without files to $log")
    }

  private def isAdded(entries: FileStreamSourceLog, next: Long): Boolean =
    try entries.add(next, Array.empty[FileStreamSource.FileEntry])
    catch {
      // The other run was faster, and cannot be so twice.
      case _: ConcurrentModificationException => false
    }

  /** Spark tells whose log it is by nothing but its caller. */
  private def isOfFiles: Boolean = StackWalker
    .getInstance(RETAIN_CLASS_REFERENCE)
    .walk[Boolean](_.anyMatch(_.getDeclaringClass == classOf[FileStreamSource]))
}
