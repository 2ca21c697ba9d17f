package io.cleancut.testkit

import java.io.IOException
import java.net.URI
import java.util.concurrent.atomic.AtomicInteger

import org.apache.hadoop.fs.{FSDataOutputStream, Path}
import org.apache.hadoop.fs.permission.FsPermission
import org.apache.hadoop.util.Progressable

/**
 * The local disk under a separate scheme, with a counter of the calls that change files. A test can
 * have all calls fail from a given one on, which has the effect of a killed process, or run code
 * before a call.
 */
class StepFileSystem extends ForklessFiles {
  import StepFileSystem._

  override def getUri: URI = Name

  override def getScheme: String = Scheme

  override def create(
      path: Path,
      overwrite: Boolean,
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    step(s"create $path")
    super.create(path, overwrite, bufferBytes, replication, blockBytes, progress)
  }

  override def createNonRecursive(
      path: Path,
      permission: FsPermission,
      flags: java.util.EnumSet[org.apache.hadoop.fs.CreateFlag],
      bufferBytes: Int,
      replication: Short,
      blockBytes: Long,
      progress: Progressable
  ): FSDataOutputStream = {
    step(s"create $path")
    super.createNonRecursive(
      path,
      permission,
      flags,
      bufferBytes,
      replication,
      blockBytes,
      progress
    )
  }

  override def rename(from: Path, to: Path): Boolean = {
    step(s"rename $from to $to")
    super.rename(from, to)
  }

  override def delete(path: Path, recursive: Boolean): Boolean = {
    step(s"delete $path")
    super.delete(path, recursive)
  }
}

object StepFileSystem {
  val Scheme = "steps"

  final class Killed(step: String) extends IOException(s"killed at: $step")

  private val Name = URI.create(s"$Scheme:///")
  private val taken = new AtomicInteger
  @volatile private var beforeStep: (Int, String) => Unit = (_, _) => ()

  /** Runs `body`, with `before` called before each step; returns the number of steps. */
  def counting(before: (Int, String) => Unit)(body: => Unit): Int = {
    taken.set(0)
    beforeStep = before
    try body
    finally beforeStep = (_, _) => ()
    taken.get
  }

  private def step(call: String): Unit = beforeStep(taken.incrementAndGet(), call)
}
