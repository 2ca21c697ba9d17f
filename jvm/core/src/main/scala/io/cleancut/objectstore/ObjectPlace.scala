package io.cleancut.objectstore

/**
 * The path of an object within a checkpoint, regardless of the checkpoint's prefix: a copy at
 * another prefix has the same paths.
 *
 * For Spark's files it is the name below the checkpoint location, and for other objects the last
 * part of the name: frames, segments and cuts contain their identity.
 */
private[objectstore] object ObjectPlace {

  // The last match counts, because a checkpoint's prefix may contain such a name.
  private val OfSpark = (
    "(?:.*/)?((?:offsets|commits)/[0-9][^/]*|sources/[^/.][^/]*/[0-9][^/]*|" +
      "state/[0-9]+/(?:[0-9]+/(?:.+/)?)?_[^/]+/.+)"
  ).r

  def of(fullName: String): String = fullName match {
    case OfSpark(place) => place
    case other          => other.substring(other.lastIndexOf('/') + 1)
  }
}
