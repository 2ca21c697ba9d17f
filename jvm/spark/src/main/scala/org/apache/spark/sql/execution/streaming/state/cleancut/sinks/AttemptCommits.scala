package org.apache.spark.sql.execution.streaming.state.cleancut.sinks

import java.util.concurrent.ConcurrentHashMap

import scala.collection.mutable.ListBuffer
import scala.util.control.NonFatal

import org.apache.hadoop.fs.Path
import org.apache.hadoop.mapreduce.{JobContext, TaskAttemptContext}

import org.apache.spark.internal.io.FileCommitProtocol.TaskCommitMessage
import org.apache.spark.internal.io.FileNameSpec

/**
 * Lets Spark's writers write files under their final names, in a directory that readers access only
 * through a list of names. Each task attempt has unique names, and Spark's commit messages define
 * which attempts count: files of other attempts are on no list.
 *
 * @param directory
 *   absolute path, used by this job only
 */
final class AttemptCommits(jobId: String, directory: String) extends NamedBySpec with Serializable {
  import AttemptCommits._

  // For the one task of this copy of the object.
  @transient private var written: ListBuffer[Path] = _

  override def setupJob(job: JobContext): Unit = ()

  override def setupTask(task: TaskAttemptContext): Unit = written = ListBuffer.empty

  override def newTaskTempFile(
      task: TaskAttemptContext,
      partitions: Option[String],
      spec: FileNameSpec
  ): String = {
    val id = task.getTaskAttemptID
    val name = f"${spec.prefix}part-${id.getTaskID.getId}%05d-${id.getId}-$jobId${spec.suffix}"
    val parent = partitions.fold(new Path(directory)) { names =>
      new Path(new Path(directory), plain(names))
    }
    val file = new Path(parent, name)
    written += file
    file.toString
  }

  override def commitTask(task: TaskAttemptContext): TaskCommitMessage =
    new TaskCommitMessage(written.toVector.map { file =>
      val status = file.getFileSystem(task.getConfiguration).getFileStatus(file)
      WrittenFile(file.toString.stripPrefix(s"$directory/"), status.getLen)
    })

  /** Deletes files early; files that remain are on no list. */
  override def abortTask(task: TaskAttemptContext): Unit =
    written.foreach { file =>
      try file.getFileSystem(task.getConfiguration).delete(file, false)
      catch { case NonFatal(e) => logWarning(s"Could not delete the unused file $file", e) }
    }

  override def commitJob(job: JobContext, messages: Seq[TaskCommitMessage]): Unit = {
    committed.put(directory, messages.flatMap(_.obj.asInstanceOf[Vector[WrittenFile]]))
    ()
  }

  override def abortJob(job: JobContext): Unit = ()
}

object AttemptCommits {

  /** @param name path below the directory of its job */
  final case class WrittenFile(name: String, bytes: Long)

  private val committed = new ConcurrentHashMap[String, Seq[WrittenFile]]

  /** The files of a completed job in this JVM, returned once. */
  def take(directory: String): Option[Seq[WrittenFile]] = Option(committed.remove(directory))

  /**
   * Names of directories in which ASCII characters that Spark leaves, but that object names cannot
   * have, are escaped as Spark escapes others.
   */
  private def plain(names: String): String =
    names.flatMap { c =>
      val isPlain = c >= 0xa0 || c.isLetterOrDigit || "/_=%.-".indexOf(c.toInt) >= 0
      if (isPlain) c.toString else f"%%${c.toInt}%02X"
    }
}
