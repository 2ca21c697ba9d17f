package io.cleancut.testkit

import java.net.URI
import java.nio.file.Files
import java.nio.file.attribute.PosixFilePermissions

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.local.LocalConfigKeys
import org.apache.hadoop.fs.permission.FsPermission

/**
 * The local disk as Hadoop has it, but that Java does what Hadoop starts processes for where it has
 * no native code: a `chmod` for each file that is made, a `readlink` for each that is renamed. They
 * would take more of the tests' time than the files. `core-site.xml` puts it in place.
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

/** What Hadoop's `FileSystem` gives for `file:`. */
class ForklessFileSystem extends LocalFileSystem(new ForklessFiles)

/** What Hadoop's `FileContext` gives for `file:`. */
class ForklessFs(uri: URI, conf: Configuration) extends ChecksumFs(new ForklessRawFs(uri, conf))

private class ForklessRawFs(uri: URI, conf: Configuration)
    extends DelegateToFileSystem(uri, new ForklessFiles, conf, "file", false) {
  override def getUriDefaultPort: Int = -1
  override def getServerDefaults(path: Path): FsServerDefaults = LocalConfigKeys.getServerDefaults
  override def isValidName(name: String): Boolean = true
}
