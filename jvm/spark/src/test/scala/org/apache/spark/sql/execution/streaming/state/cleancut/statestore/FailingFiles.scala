package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.io.IOException

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing._

/**
 * A file manager that fails at a given moment of a file write, before or after the file is visible.
 */
class FailingFiles(path: Path, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {
  import FailingFiles._

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    fail(Create, path)
    val real = super.createAtomic(path, overwriteIfPossible)
    new CheckpointFileManager.CancellableFSDataOutputStream(real) {
      override def cancel(): Unit = real.cancel()
      override def close(): Unit = {
        fail(BeforeRename, path)
        real.close()
        fail(AfterRename, path)
      }
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        fail(Write, path)
        real.write(bytes, offset, length)
      }
    }
  }
}

object FailingFiles {
  val ManagerKey = "spark.sql.streaming.checkpointFileManagerClass"
  val Message = "no space left (by this test)"
  val Create = "to create a file"
  val Write = "to write to a file"
  val BeforeRename = "before the rename"
  val AfterRename = "after the rename"
  val Moments: Seq[String] = Seq(Create, Write, BeforeRename, AfterRename)

  final private case class Plan(moment: String, suffix: String)

  @volatile private var plan: Option[Plan] = None
  @volatile private var failures = 0

  /** Runs `body` while each file with the suffix fails at this moment; at least one file must. */
  def during[A](moment: String, suffix: String = "")(body: => A): A = {
    failures = 0
    plan = Some(Plan(moment, suffix))
    try {
      val result = body
      assert(failures > 0, "no write has failed")
      result
    } finally plan = None
  }

  private def fail(moment: String, path: Path): Unit =
    if (plan.exists(p => p.moment == moment && path.getName.endsWith(p.suffix))) {
      failures += 1
      throw new IOException(Message)
    }
}
