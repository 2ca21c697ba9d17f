package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import scala.annotation.unused

import org.apache.hadoop.mapreduce.TaskAttemptContext

import org.apache.spark.internal.io.{FileCommitProtocol, FileNameSpec}

/**
 * Spark's writers request files by a prefix and a suffix; older methods of this Spark version are
 * unused.
 */
abstract private[sinks] class NamedBySpec extends FileCommitProtocol {
  override def newTaskTempFile(
      task: TaskAttemptContext,
      partitions: Option[String],
      extension: String
  ): String = newTaskTempFile(task, partitions, FileNameSpec("", extension))

  override def newTaskTempFileAbsPath(
      @unused task: TaskAttemptContext,
      absolute: String,
      @unused extension: String
  ): String = throw new UnsupportedOperationException(s"a file in $absolute")
}
