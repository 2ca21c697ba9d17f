package org.apache.spark.sql.execution.streaming.state.cleancut

import java.io.IOException
import java.util.concurrent.atomic.AtomicReference

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.Path
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.checkpointing._

import Providers._

/** File systems that fail at a commit: the old version stays, and the next attempt succeeds. */
class FailingFilesSuite extends AnyFunSuite {

  for (moment <- FailingFiles.Moments)
    test(s"a file system that fails $moment fails the commit, and the next attempt succeeds") {
      val setup = Providers
        .setup()
        .copy(hadoop = Map(FailingFiles.ManagerKey -> classOf[FailingFiles].getName))
      val provider = setup.open()
      commit(provider, 0, 1L -> 10L)
      val store = provider.getStore(1)
      store.put(key(1), value(11))
      FailingFiles.failAt.set(moment)
      val thrown =
        try intercept[Throwable](store.commit())
        finally FailingFiles.failAt.set("")
      assert(thrown.getCause.getMessage.contains(FailingFiles.Message))
      assert(!store.hasCommitted)
      store.abort()
      assert(rows(provider.getStore(1)) == Map(1L -> 10L))
      val fresh = setup.open()
      assert(commit(fresh, 1, 2L -> 20L) == 2)
      fresh.close()
      provider.close()
      assert(rowsAt(setup, 2) == Map(1L -> 10L, 2L -> 20L))
      assert(rowsAt(setup, 1) == Map(1L -> 10L))
    }
}

/** A file manager that fails at a named moment, before or after the file has appeared. */
class FailingFiles(path: Path, conf: Configuration)
    extends FileSystemBasedCheckpointFileManager(path, conf) {
  import FailingFiles._

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = {
    val real = super.createAtomic(path, overwriteIfPossible)
    new CheckpointFileManager.CancellableFSDataOutputStream(real) {
      override def cancel(): Unit = real.cancel()
      override def close(): Unit = {
        fail(BeforeRename)
        real.close()
        fail(AfterRename)
      }
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        fail(Write)
        real.write(bytes, offset, length)
      }
    }
  }
}

object FailingFiles {
  val ManagerKey = "spark.sql.streaming.checkpointFileManagerClass"
  val Message = "no space left (by this test)"
  val Write = "while it writes"
  val BeforeRename = "before the rename"
  val AfterRename = "after the rename"
  val Moments: Seq[String] = Seq(Write, BeforeRename, AfterRename)

  /** The moment at which every file fails; empty for never. */
  val failAt = new AtomicReference("")

  private def fail(moment: String): Unit =
    if (failAt.get == moment) throw new IOException(Message)
}
