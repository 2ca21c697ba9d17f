package io.cleancut.testkit

import java.net.URI
import java.nio.file.{Files, Paths, StandardCopyOption}
import java.util.concurrent.atomic.AtomicReference
import java.util.function.Consumer

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._

/**
 * A local disk under any scheme, whose rename is not atomic, as on many file systems: it checks
 * whether the target exists, and then replaces it.
 */
class NonAtomicFiles extends FilterFileSystem(new AnySchemeFiles) {
  private var uri = URI.create("looking:///")

  override def initialize(name: URI, conf: Configuration): Unit = {
    fs.initialize(URI.create("file:///"), conf)
    uri = URI.create(s"${name.getScheme}://${Option(name.getAuthority).getOrElse("")}/")
    setConf(conf)
  }

  override def getUri: URI = uri

  override protected def getDefaultPort: Int = NonAtomicFiles.Port

  // The host does not exist.
  override def getCanonicalServiceName: String = null

  override def getScheme: String = uri.getScheme

  override def makeQualified(path: Path): Path = path.makeQualified(uri, getWorkingDirectory)

  override def getWorkingDirectory: Path = new Path("/")

  override protected def checkPath(path: Path): Unit = ()

  override def resolvePath(path: Path): Path = getFileStatus(path).getPath

  override def getFileStatus(path: Path): FileStatus = qualify(fs.getFileStatus(plain(path)))

  override def listStatus(path: Path): Array[FileStatus] =
    fs.listStatus(plain(path)).map(qualify)

  override def rename(from: Path, to: Path): Boolean =
    !fs.exists(plain(to)) && {
      NonAtomicFiles.between.get.accept(to)
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

  private def qualify(status: FileStatus): FileStatus = {
    status.setPath(makeQualified(plain(status.getPath)))
    status
  }
}

private class AnySchemeFiles extends ForklessFiles {
  override protected def checkPath(path: Path): Unit = ()
}

/** The implementation of `FileContext`. */
class NonAtomicFs(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(
      uri, {
        val files = new NonAtomicFiles
        files.initialize(uri, conf)
        files
      },
      conf,
      uri.getScheme,
      uri.getAuthority != null
    ) {
  override def getUriDefaultPort: Int = NonAtomicFiles.Port
  override def getServerDefaults(path: Path): FsServerDefaults =
    local.LocalConfigKeys.getServerDefaults
}

object NonAtomicFiles {

  /** A default port, which Hadoop requires of file systems with hosts. */
  private[testkit] val Port = 8020

  /** An action between the check and the rename, which receives the target. */
  val between = new AtomicReference[Consumer[Path]](_ => ())

  /** A configuration with this file system for a scheme. */
  def conf(scheme: String): Configuration = {
    val conf = new Configuration
    conf.set(s"fs.$scheme.impl", classOf[NonAtomicFiles].getName)
    conf.set(s"fs.$scheme.impl.disable.cache", "true")
    conf.set(s"fs.AbstractFileSystem.$scheme.impl", classOf[NonAtomicFs].getName)
    conf
  }
}
