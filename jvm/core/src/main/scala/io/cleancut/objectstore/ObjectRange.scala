package io.cleancut.objectstore

/**
 * A range of object names below one prefix, in the order of their bytes.
 *
 * @param after
 *   lower limit, exclusive
 * @param until
 *   upper limit, exclusive
 */
final case class ObjectRange(prefix: ObjectPrefix, after: String, until: String) {

  def contains(key: ObjectKey): Boolean = isAfter(key.name) && key.name < until

  private[cleancut] def isAfter(name: String): Boolean =
    name.startsWith(prefix.name) && name > after

  /** Whether a directory can contain names in the range. */
  private[objectstore] def overlaps(directory: String): Boolean =
    s"$directory/" < until && s"$directory${ObjectRange.AfterSlash}" > after
}

object ObjectRange {

  /**
   * The character after `/`: names below a directory are less than the directory's name with this
   * character.
   */
  private val AfterSlash = '0'
}
