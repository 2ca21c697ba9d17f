package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.lang.StackWalker.Option.RETAIN_CLASS_REFERENCE
import java.util.ConcurrentModificationException

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.{FileStreamSource, FileStreamSourceLog}

import io.cleancut.coordinator.state.Begun

/**
 * Adds an entry without files to the log of a file source, for a run that takes over from a run
 * that may still be active. A file source adds to its log before it plans an epoch, and assumes
 * that it is the only writer: an entry that is added after it has read the log ends the query. The
 * earlier run plans no further epoch (see [[DrainPlan]]), so it can add at most one such entry.
 * That entry is added before this one and read with it, or not at all.
 */
object SourceFence {
  private val logger = LoggerFactory.getLogger(getClass)

  /** Called in the thread that creates the source, before the source reads its log. */
  def write(begun: Begun, log: Path): Unit =
    if (begun.cut.isDefined && !begun.isAlone && isOfFiles) {
      // The class of the source defines the names and contents of entries.
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
      // The other run was faster, which can happen only once.
      case _: ConcurrentModificationException => false
    }

  /** Only the caller shows whose log it is. */
  private def isOfFiles: Boolean = StackWalker
    .getInstance(RETAIN_CLASS_REFERENCE)
    .walk[Boolean](_.anyMatch(_.getDeclaringClass == classOf[FileStreamSource]))
}
