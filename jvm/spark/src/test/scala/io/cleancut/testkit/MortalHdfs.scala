package io.cleancut.testkit

import java.net.URI

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{DelegateToFileSystem, Options, Path}
import org.apache.hadoop.hdfs.DistributedFileSystem

/**
 * Hadoop's client of HDFS. Where a file is about to be renamed to a name that ends as
 * [[MortalFileSystem.FatalKey]] says, the process dies by SIGKILL.
 */
class MortalHdfs extends DistributedFileSystem {

  override def rename(from: Path, to: Path, options: Options.Rename*): Unit = {
    if (Option(getConf.get(MortalFileSystem.FatalKey)).exists(to.toString.endsWith(_))) {
      SuddenDeath.die()
    }
    super.rename(from, to, options: _*)
  }
}

/** What Hadoop's `FileContext` gives for `hdfs:` then; the name node is asked the same. */
class MortalHdfsContext(uri: URI, conf: Configuration, files: MortalHdfs)
    extends DelegateToFileSystem(uri, files, conf, MortalHdfs.Scheme, true) {

  def this(uri: URI, conf: Configuration) = this(uri, conf, new MortalHdfs)

  override def renameInternal(from: Path, to: Path): Unit =
    files.rename(from, to, Options.Rename.NONE)

  override def renameInternal(from: Path, to: Path, overwrite: Boolean): Unit =
    files.rename(from, to, if (overwrite) Options.Rename.OVERWRITE else Options.Rename.NONE)
}

object MortalHdfs {
  val Scheme = "hdfs"

  /** What a session takes it by. */
  val Confs: Map[String, String] = Map(
    s"spark.hadoop.fs.$Scheme.impl" -> classOf[MortalHdfs].getName,
    s"spark.hadoop.fs.AbstractFileSystem.$Scheme.impl" -> classOf[MortalHdfsContext].getName
  )
}
