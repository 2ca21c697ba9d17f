package io.cleancut.objectstore.hadoop

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.viewfs.ViewFileSystem

import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.BucketPath

/**
 * Hadoop file systems whose rename decides between writers of one name: exactly one succeeds, and
 * the others are refused. Hadoop's interface does not expose this, so only known file systems are
 * trusted; most others check first and rename then.
 */
object AtomicRename {

  /**
   * Schemes whose rename copies and deletes: no setting makes them safe. If the store supports S3,
   * Cleancut's client is safe there.
   */
  private val Copying =
    Set("s3a", "s3n", "gs", "oss", "cos", "cosn", "obs", "swift", "wasb", "wasbs")

  /** HDFS's name node and Ozone's manager check and rename under a lock. */
  private val Deciding = Set("hdfs", "ofs", "o3fs")

  /** Azure's service decides, if the account has directories. */
  private val Azure = Set("abfs", "abfss")

  def isByCopy(scheme: String): Boolean = Copying(scheme)

  /** The error for a location whose scheme renames by a copy. */
  def refusal(location: String, scheme: String): CleancutException = {
    val advice =
      BucketPath.ofS3a(location).fold("Use a location on s3://, HDFS or a local disk.") { url =>
        s"Use $url, which does not require hadoop-aws. To keep the state of an existing " +
          s"checkpoint, stop the query and copy it to a new location: cleancut clone $url " +
          "s3://<bucket>/<new prefix> --provider cleancut --same-query --apply"
      }
    Errors.objectStoreUnsafe(
      location,
      s"$scheme:// renames a file by copying it, which cannot decide between two drivers",
      advice
    )
  }

  /**
   * The reason why the rename is not trusted; None if it is.
   *
   * @throws java.io.IOException
   *   if an account does not respond to a check
   */
  def doubt(files: FileSystem, location: Path, conf: Configuration): Option[String] = files match {
    // It uses links instead of renames, so the kernel decides.
    case _: RawLocalFileSystem => None
    case view: ViewFileSystem  => doubtBehind(view, location, conf)
    case _                     => doubtOf(files, location)
  }

  private def doubtOf(files: FileSystem, location: Path): Option[String] =
    files.getUri.getScheme match {
      case scheme if Deciding(scheme) => None
      case scheme if Azure(scheme)    =>
        // An account has access lists if and only if it has a hierarchical namespace.
        Option.unless(files.hasPathCapability(location, CommonPathCapabilities.FS_ACLS))(
          "its Azure account has no hierarchical namespace, without which a rename is a copy"
        )
      case scheme =>
        Some(
          s"the rename of $scheme:// is unknown: if it checks the new name first and renames " +
            "then, two drivers can both commit an epoch"
        )
    }

  /** The file system of a path in a view of several file systems. */
  private def doubtBehind(
      view: ViewFileSystem,
      location: Path,
      conf: Configuration
  ): Option[String] = {
    val existing = Iterator.iterate(location)(_.getParent).takeWhile(_ != null).find(view.exists)
    val target = view.resolvePath(existing.getOrElse(location))
    target.getFileSystem(conf) match {
      case _: ViewFileSystem => Some("it is below no existing mount point of the view")
      // The view hides the local file system, so files are renamed there and not linked.
      case other => doubtOf(other, target)
    }
  }
}
