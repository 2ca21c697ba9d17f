package io.cleancut.objectstore

/**
 * Which part of a checkpoint an object is, whatever prefix the checkpoint lies below: a copy of it
 * at another prefix has the same places.
 *
 * Of Spark's own files it is the name below the checkpoint location, and of any other object its
 * last part: the frames, segments and cuts in these say by themselves what they are.
 */
private[objectstore] object ObjectPlace {

  // The last that fits counts, for a checkpoint may lie below such a name.
  private val OfSpark = (
    "(?:.*/)?((?:offsets|commits)/[0-9][^/]*|sources/[^/.][^/]*/[0-9][^/]*|" +
      "state/[0-9]+/(?:[0-9]+/(?:.+/)?)?_[^/]+/.+)"
  ).r

  def of(fullName: String): String = fullName match {
    case OfSpark(place) => place
    case other          => other.substring(other.lastIndexOf('/') + 1)
  }
}
