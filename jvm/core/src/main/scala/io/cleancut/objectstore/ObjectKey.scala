package io.cleancut.objectstore

import java.nio.charset.StandardCharsets.UTF_8

/**
 * The name of an object below the location of its store: segments joined by `/`. Valid names are
 * those that a Hadoop `Path` carries unchanged and every store can list: no segment is empty, `.`
 * or `..`, and there are no control characters. [[HadoopStore]] reserves segments that begin with a
 * dot ([[ObjectKey.isPlain]]).
 */
final case class ObjectKey(name: String) {
  require(ObjectKey.isKey(name), s"not the name of an object: '$name'")

  def lastSegment: String = name.split('/').last

  override def toString: String = name
}

object ObjectKey {

  /** Limit of S3 and R2 for the complete key in bytes, including the prefix of the location. */
  final val MaxLength = 1024

  def isKey(name: String): Boolean = problem(name).isEmpty

  /** The reason why a name is invalid; None if it is valid. */
  def problem(name: String): Option[String] =
    if (name.getBytes(UTF_8).length > MaxLength) Some(s"has more than $MaxLength bytes")
    else if (name.split("/", -1).exists(segment => segment.isEmpty)) Some("has an empty segment")
    else if (name.split("/", -1).exists(segment => segment == "." || segment == ".."))
      Some("has a segment '.' or '..'")
    else name.codePoints().toArray.find(isRefused).map(point => f"has the character U+$point%04X")

  /** Control characters, and unpaired surrogates, which UTF-8 cannot encode. */
  private def isRefused(point: Int): Boolean =
    Character.isISOControl(point) || (point >= 0xd800 && point <= 0xdfff)

  // In file systems other characters have a special meaning, such as globs or hidden files.
  private val Plain = {
    val segment = "[A-Za-z0-9_=%\\x{A0}-\\x{10FFFF}-][A-Za-z0-9_=%\\x{A0}-\\x{10FFFF}.-]*"
    s"$segment(/$segment)*".r
  }

  /** Whether a [[HadoopStore]] stores and lists objects with this name. */
  def isPlain(name: String): Boolean = isKey(name) && Plain.matches(name)
}

/** The prefix of a listing: the complete store, or the objects below a name that ends with `/`. */
final case class ObjectPrefix(name: String) {
  require(ObjectPrefix.isPrefix(name), s"not a prefix that ends with '/': '$name'")

  /** Empty for the complete store. */
  def lastSegment: String = name.split('/').last

  override def toString: String = name
}

object ObjectPrefix {
  val All: ObjectPrefix = ObjectPrefix("")

  def isPrefix(name: String): Boolean =
    name.isEmpty || (name.endsWith("/") && ObjectKey.isKey(name.dropRight(1)))
}
