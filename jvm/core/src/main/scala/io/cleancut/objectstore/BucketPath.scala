package io.cleancut.objectstore

import io.cleancut.error.Errors

/**
 * `s3://bucket/prefix`.
 *
 * @param prefix
 *   empty, or a name that ends with `/`
 */
final case class BucketPath(bucket: String, prefix: String) {
  def fullName(key: ObjectKey): String = prefix + key.name

  def fullName(below: ObjectPrefix): String = prefix + below.name

  /**
   * The key of an object by its name in the bucket; None if no [[ObjectKey]] can have that name.
   */
  def keyOf(fullName: String): Option[ObjectKey] =
    Some(fullName.stripPrefix(prefix)).filter(ObjectKey.isKey).map(ObjectKey(_))

  /** The same for a prefix, which ends with `/`. */
  def prefixOf(fullName: String): Option[ObjectPrefix] =
    Some(fullName.stripPrefix(prefix)).filter(ObjectPrefix.isPrefix).map(ObjectPrefix(_))

  override def toString: String = s"s3://$bucket/$prefix".stripSuffix("/")
}

object BucketPath {
  val Scheme = "s3"

  /**
   * Half of the key length that S3 and R2 allow, in bytes; the other half is for names below it.
   */
  val MaxPrefixLength = 512

  /** The location for Cleancut's client of a location for Hadoop's S3A. */
  def ofS3a(location: String): Option[String] =
    Option.when(location.matches("(?s)s3[an]:.*"))(
      s"$Scheme://${location.replaceFirst("^[^:]*:/*", "")}"
    )

  private val Text = "(?s)s3://([^/]*)/?(.*)".r
  private val Bucket = "[A-Za-z0-9][A-Za-z0-9._-]{1,61}[A-Za-z0-9]".r

  /** @throws io.cleancut.error.CleancutException CLEANCUT_OBJECT_LOCATION_INVALID */
  def parse(text: String): BucketPath = {
    def invalid(detail: String) = throw Errors.objectLocationInvalid(text, detail)
    text match {
      case Text(bucket, path) =>
        if (!Bucket.matches(bucket)) invalid(s"'$bucket' is not the name of a bucket")
        val prefix = path.stripSuffix("/") match {
          case ""   => ""
          case name => s"$name/"
        }
        if (prefix.nonEmpty)
          ObjectKey.problem(prefix.dropRight(1)).foreach(problem => invalid(s"its path $problem"))
        if (prefix.getBytes("UTF-8").length > MaxPrefixLength)
          invalid(s"its path has more than $MaxPrefixLength bytes")
        BucketPath(bucket, prefix)
      case _ => invalid("it does not begin with s3://")
    }
  }
}
