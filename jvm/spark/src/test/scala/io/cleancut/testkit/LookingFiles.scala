package io.cleancut.testkit

import java.net.URI
import java.nio.file.{Files, Paths, StandardCopyOption}
import java.util.concurrent.atomic.AtomicReference
import java.util.function.Consumer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/**
 * A local disk under whatever scheme it is asked for, whose rename is what many file systems make
 * of it: it looks for the new name first, and replaces then what has it.
 */
class LookingFiles extends FilterFileSystem(new FilesOfAnyScheme) {
  private var uri = URI.create("looking:///")

  override def initialize(name: URI, conf: Configuration): Unit = {
    fs.initialize(URI.create("file:///"), conf)
    uri = URI.create(s"${name.getScheme}://${Option(name.getAuthority).getOrElse("")}/")
    setConf(conf)
  }

  override def getUri: URI = uri

  override protected def getDefaultPort: Int = LookingFiles.Port

  // There is no such host.
  override def getCanonicalServiceName: String = null

  override def getScheme: String = uri.getScheme

  override def makeQualified(path: Path): Path = path.makeQualified(uri, getWorkingDirectory)

  override def getWorkingDirectory: Path = new Path("/")

  override protected def checkPath(path: Path): Unit = ()

  override def resolvePath(path: Path): Path = getFileStatus(path).getPath

  override def getFileStatus(path: Path): FileStatus = own(fs.getFileStatus(plain(path)))

  override def listStatus(path: Path): Array[FileStatus] =
    fs.listStatus(plain(path)).map(own)

  override def rename(from: Path, to: Path): Boolean =
    !fs.exists(plain(to)) && {
      LookingFiles.between.get.accept(to)
      replace(from, to)
      true
    }

  // The rename of `FileContext`. The inherited one would not call the hook.
  override protected def rename(from: Path, to: Path, options: Options.Rename*): Unit =
    if (options.contains(Options.Rename.OVERWRITE)) replace(from, to)
    else if (!rename(from, to)) throw new FileAlreadyExistsException(to.toString)

  private def replace(from: Path, to: Path): Unit = {
    // Without ATOMIC_MOVE the JDK deletes the target first, and the second of two moves fails.
    Files.move(local(from), local(to), StandardCopyOption.ATOMIC_MOVE)
    ()
  }

  private def plain(path: Path) = new Path(path.toUri.getPath)

  private def local(path: Path) = Paths.get(path.toUri.getPath)

  private def own(status: FileStatus): FileStatus = {
    status.setPath(makeQualified(plain(status.getPath)))
    status
  }
}

private class FilesOfAnyScheme extends ForklessFiles {
  override protected def checkPath(path: Path): Unit = ()
}

/** What Hadoop's `FileContext` gives for it. */
class LookingFs(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(
      uri, {
        val files = new LookingFiles
        files.initialize(uri, conf)
        files
      },
      conf,
      uri.getScheme,
      uri.getAuthority != null
    ) {
  override def getUriDefaultPort: Int = LookingFiles.Port
  override def getServerDefaults(path: Path): FsServerDefaults =
    local.LocalConfigKeys.getServerDefaults
}

object LookingFiles {

  /** Hadoop wants one of whatever has hosts. */
  private[testkit] val Port = 8020

  /** What happens between the look and the rename, by the name that the file is to have. */
  val between = new AtomicReference[Consumer[Path]](_ => ())

  /** A configuration that has it for a scheme. */
  def conf(scheme: String): Configuration = {
    val conf = new Configuration
    conf.set(s"fs.$scheme.impl", classOf[LookingFiles].getName)
    conf.set(s"fs.$scheme.impl.disable.cache", "true")
    conf.set(s"fs.AbstractFileSystem.$scheme.impl", classOf[LookingFs].getName)
    conf
  }
}
