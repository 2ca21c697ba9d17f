package io.cleancut.objectstore.s3

import java.net.URI
import java.util.Locale

/**
 * The rules of an S3-compatible store. Rules that suit all stores are in [[S3Connection]].
 *
 * @param region
 *   default signing region; None leaves it to the SDK
 * @param bodyCheck
 *   checksum that is sent with each body
 */
sealed abstract class Dialect(
    val name: String,
    val pathStyle: Boolean,
    val region: Option[String],
    val bodyCheck: BodyCheck
) {
  override def toString: String = name
}

object Dialect {

  /** Its directory buckets do not support Content-MD5. */
  case object Aws extends Dialect("aws", pathStyle = false, None, BodyCheck.Crc32c)

  /** Signs for one region only, and checks Content-MD5 but not all other checksums. */
  case object R2 extends Dialect("r2", pathStyle = true, Some("auto"), BodyCheck.ContentMd5)

  /** Rules that servers have in common; Content-MD5 has always been part of S3. */
  case object Generic
      extends Dialect("generic", pathStyle = true, Some("us-east-1"), BodyCheck.ContentMd5)

  val values: Seq[Dialect] = Seq(Aws, R2, Generic)

  def named(name: String): Option[Dialect] = values.find(_.name == name)

  /** The dialect of the store at an endpoint; AWS without an endpoint. */
  def at(endpoint: Option[URI]): Dialect =
    endpoint.flatMap(uri => Option(uri.getHost)).map(_.toLowerCase(Locale.ROOT)) match {
      case _ if endpoint.isEmpty                                            => Aws
      case Some(host) if isBelow(host, "amazonaws.com", "amazonaws.com.cn") => Aws
      case Some(host) if isBelow(host, "r2.cloudflarestorage.com")          => R2
      case _                                                                => Generic
    }

  private def isBelow(host: String, domains: String*): Boolean =
    domains.exists(domain => host == domain || host.endsWith(s".$domain"))
}

/** The checksum by which a store detects a body that was corrupted in transit. */
sealed trait BodyCheck

object BodyCheck {
  case object ContentMd5 extends BodyCheck
  case object Crc32c extends BodyCheck
}
