package io.cleancut.objects

import java.nio.charset.StandardCharsets.UTF_8

/**
 * The name of an object below the location of its store: segments of letters, digits and `_-=.%`,
 * and of whatever is not ASCII, joined by `/`. No segment begins with a dot, a sign that
 * [[HadoopStore]] keeps for itself. What no store or file system treats in a way of its own is
 * left; all but the plain letters is there for the values of columns in names of Spark's files.
 */
final case class ObjectKey(name: String) {
  require(ObjectKey.isKey(name), s"not the name of an object: '$name'")

  def lastSegment: String = name.split('/').last

  override def toString: String = name
}

object ObjectKey {

  // A constant, as Segment below: else each of the two objects would be initialised by the other,
  // and two threads that begin with one each would wait for ever.
  /** Half of what S3 and R2 allow, in bytes; the other half is for the location. */
  final val MaxLength = 512

  private val Name = s"${ObjectPrefix.Segment}(/${ObjectPrefix.Segment})*".r

  def isKey(name: String): Boolean =
    name.getBytes(UTF_8).length <= MaxLength && Name.matches(name)
}

/** Where a listing begins: all of the store, or what lies below a name that ends with `/`. */
final case class ObjectPrefix(name: String) {
  require(ObjectPrefix.isPrefix(name), s"not a prefix that ends with '/': '$name'")

  /** Empty for all of the store. */
  def lastSegment: String = name.split('/').last

  override def toString: String = name
}

object ObjectPrefix {
  final private[objects] val Segment =
    "[A-Za-z0-9_=%\\x{A0}-\\x{10FFFF}-][A-Za-z0-9_=%\\x{A0}-\\x{10FFFF}.-]*"

  private val Name = s"($Segment/)*".r

  val All: ObjectPrefix = ObjectPrefix("")

  def isPrefix(name: String): Boolean =
    name.getBytes(UTF_8).length <= ObjectKey.MaxLength && Name.matches(name)
}
