package io.cleancut.testkit

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, Path}
import org.apache.hadoop.util.Progressable

/**
 * The local disk under a separate scheme. Before a file is created under, or renamed to, a name
 * with the suffix [[KillableFileSystem.FatalKey]], the process is killed by SIGKILL. It stands for
 * any Hadoop file system, because it is used only through Hadoop's interface.
 */
class KillableFileSystem extends ForklessFiles {
  import KillableFileSystem._

  private var fatal = Option.empty[String]

  override def initialize(uri: URI, conf: Configuration): Unit = {
    super.initialize(uri, conf)
    fatal = Option(conf.get(FatalKey))
  }

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
    dieAt(path)
    super.create(path, overwrite, bufferBytes, replication, blockBytes, progress)
  }

  override def rename(from: Path, to: Path): Boolean = {
    dieAt(to)
    super.rename(from, to)
  }

  private def dieAt(path: Path): Unit =
    if (fatal.exists(path.toString.endsWith(_))) SuddenDeath.die()
}

object KillableFileSystem {
  val Scheme = "mortal"
  val FatalKey = "cleancut.mortal.fatal"

  private val Name = URI.create(s"$Scheme:///")
}
