package io.cleancut.testkit

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.local.LocalConfigKeys
import org.apache.hadoop.fs.permission.FsPermission

/**
 * Hadoop's local file system without child processes. Without native code, Hadoop starts a `chmod`
 * for each new file and a `readlink` for each rename, which would take most of the time of the
 * tests. Here Java does both. `core-site.xml` configures it.
 */
class ForklessFiles extends RawLocalFileSystem {

  override def setPermission(path: Path, permission: FsPermission): Unit = {
    val modes = Seq(permission.getUserAction, permission.getGroupAction, permission.getOtherAction)
    val symbols = PosixFilePermissions.fromString(modes.map(_.SYMBOL).mkString)
    Files.setPosixFilePermissions(pathToFile(path).toPath, symbols)
    ()
  }

  override def getFileLinkStatus(path: Path): FileStatus =
    if (Files.isSymbolicLink(pathToFile(path).toPath)) super.getFileLinkStatus(path)
    else getFileStatus(path)
}

/** The implementation of `FileSystem` for `file:`. */
class ForklessFileSystem extends LocalFileSystem(new ForklessFiles)

/** The implementation of `FileContext` for `file:`. */
class ForklessFs(uri: URI, conf: Configuration) extends ChecksumFs(new ForklessRawFs(uri, conf))

private class ForklessRawFs(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(uri, new ForklessFiles, conf, "file", false) {
  override def getUriDefaultPort: Int = -1
  override def getServerDefaults(path: Path): FsServerDefaults = LocalConfigKeys.getServerDefaults
  override def isValidName(name: String): Boolean = true
}
