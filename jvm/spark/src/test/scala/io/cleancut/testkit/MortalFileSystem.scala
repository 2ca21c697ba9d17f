package io.cleancut.testkit

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FSDataOutputStream, Path}
import org.apache.hadoop.util.Progressable

/**
 * The local disk under a scheme of its own. Where a file is about to be made or renamed to a name
 * that ends as [[MortalFileSystem.FatalKey]] says, the process dies by SIGKILL. It stands for any
 * file system of Hadoop, since nothing but Hadoop's interface tells what it is.
 */
class MortalFileSystem extends ForklessFiles {
  import MortalFileSystem._

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

object MortalFileSystem {
  val Scheme = "mortal"
  val FatalKey = "cleancut.mortal.fatal"

  private val Name = URI.create(s"$Scheme:///")
}
