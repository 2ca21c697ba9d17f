package io.cleancut.objectstore.hadoop

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs._
import org.apache.hadoop.fs.viewfs.ViewFileSystem

import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.BucketPath

/**
 * Which file systems of Hadoop decide between writers that rename to one name: exactly one has it,
 * and the others are refused. Nothing in Hadoop's interface tells, so those are trusted that are
 * known to; most others look first and rename then.
 */
object AtomicRename {

  /**
   * Schemes whose rename copies and deletes: not even a user's word makes them safe. Our own client
   * does better there where the store speaks S3.
   */
  private val Copying =
    Set("s3a", "s3n", "gs", "oss", "cos", "cosn", "obs", "swift", "wasb", "wasbs")

  /** A name node, and Ozone's manager: each looks and renames under its own lock. */
  private val Deciding = Set("hdfs", "ofs", "o3fs")

  /** The service decides, where it has directories at all. */
  private val Azure = Set("abfs", "abfss")

  def isByCopy(scheme: String): Boolean = Copying(scheme)

  /** The error for a location whose scheme renames by a copy. */
  def refusal(location: String, scheme: String): CleancutException = {
    val advice =
      BucketPath.ofS3a(location).fold("Use a location on s3://, HDFS or a local disk.") { own =>
        s"Write $own, which needs no hadoop-aws. To keep the state of an existing checkpoint, " +
          s"stop the query and copy it to a new location: cleancut clone $own " +
          "s3://<bucket>/<new prefix> --provider cleancut --same-query --apply"
      }
    Errors.objectStoreUnsafe(
      location,
      s"$scheme:// renames a file by a copy, which cannot decide between two drivers",
      advice
    )
  }

  /**
   * Why these files are not known to be renamed so; None where they are.
   *
   * @throws java.io.IOException
   *   an account that has to be asked does not answer
   */
  def doubt(files: FileSystem, location: Path, conf: Configuration): Option[String] = files match {
    // It links and does not rename, so the kernel decides.
    case _: RawLocalFileSystem => None
    case view: ViewFileSystem  => doubtBehind(view, location, conf)
    case _                     => doubtOf(files, location)
  }

  private def doubtOf(files: FileSystem, location: Path): Option[String] =
    files.getUri.getScheme match {
      case scheme if Deciding(scheme) => None
      case scheme if Azure(scheme)    =>
        // It has access lists if, and only if, it has a hierarchical namespace.
        Option.unless(files.hasPathCapability(location, CommonPathCapabilities.FS_ACLS))(
          "its Azure account has no hierarchical namespace, without which a rename is a copy"
        )
      case scheme =>
        Some(
          s"nothing is known of how $scheme:// renames: where it looks for the new name first " +
            "and renames then, two drivers can both commit an epoch"
        )
    }

  /** What a view of several file systems shows at a place. */
  private def doubtBehind(
      view: ViewFileSystem,
      location: Path,
      conf: Configuration
  ): Option[String] = {
    val existing = Iterator.iterate(location)(_.getParent).takeWhile(_ != null).find(view.exists)
    val target = view.resolvePath(existing.getOrElse(location))
    target.getFileSystem(conf) match {
      case _: ViewFileSystem => Some("no mount point of the view is above it that exists")
      // The view hides it, so that files are renamed there and not linked.
      case other => doubtOf(other, target)
    }
  }
}
