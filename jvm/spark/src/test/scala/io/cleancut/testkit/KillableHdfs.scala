package io.cleancut.testkit

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{DelegateToFileSystem, Options, Path}
import org.apache.hadoop.hdfs.DistributedFileSystem

/**
 * Hadoop's HDFS client. Before a file is renamed to a name with the suffix
 * [[KillableFileSystem.FatalKey]], the process is killed by SIGKILL.
 */
class KillableHdfs extends DistributedFileSystem {

  override def rename(from: Path, to: Path, options: Options.Rename*): Unit = {
    if (Option(getConf.get(KillableFileSystem.FatalKey)).exists(to.toString.endsWith(_))) {
      SuddenDeath.die()
    }
    super.rename(from, to, options: _*)
  }
}

/** The implementation of `FileContext` for `hdfs:`; it sends the same requests to the name node. */
class KillableHdfsContext(uri: URI, conf: Configuration, files: KillableHdfs)
    extends DelegateToFileSystem(uri, files, conf, KillableHdfs.Scheme, true) {

  def this(uri: URI, conf: Configuration) = this(uri, conf, new KillableHdfs)

  override def renameInternal(from: Path, to: Path): Unit =
    files.rename(from, to, Options.Rename.NONE)

  override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit =
    files.rename(from, to, if (overwrite) Options.Rename.OVERWRITE else Options.Rename.NONE)
}

object KillableHdfs {
  val Scheme = "hdfs"

  /** The configuration of a session with this client. */
  val Confs: Map[String, String] = Map(
    s"spark.hadoop.fs.$Scheme.impl" -> classOf[KillableHdfs].getName,
    s"spark.hadoop.fs.AbstractFileSystem.$Scheme.impl" -> classOf[KillableHdfsContext].getName
  )
}
