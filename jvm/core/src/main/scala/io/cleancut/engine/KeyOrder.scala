package io.cleancut.engine

import io.cleancut.engine.memory.Bytes

/**
 * Maps a key to its place in the order of a family: two 64-bit numbers, compared as unsigned, the
 * major one first. If two keys have the same place, [[compare]] decides. An order whose places are
 * unique does not need it.
 *
 * An instance belongs to one log and is used by one thread at a time, so it may reuse its rows.
 */
trait KeyOrder {

  /** Computes the place of a key, for [[major]] and [[minor]]. */
  def locate(key: Bytes): Unit
  def major: Long
  def minor: Long

  /** Whether the order of keys with the same place does not matter. */
  def isTotal: Boolean = true

  /** The order of two keys with the same place. It is called only if the order is not total. */
  def compare(a: Bytes, b: Bytes): Int = 0

  final def placeOf(key: Bytes): Place = {
    locate(key)
    new Place(major, minor)
  }
}

/** A position in an ordered index: before the entries of the place whose ref is not smaller. */
final class Place(var major: Long, var minor: Long, var ref: Int = 0) {

  /** The order of the two places; the refs do not count. */
  def compareTo(other: Place): Int = {
    val byMajor = java.lang.Long.compareUnsigned(major, other.major)
    if (byMajor != 0) byMajor else java.lang.Long.compareUnsigned(minor, other.minor)
  }
}

object Place {

  /** The start of every order. A scan moves its place, so each scan needs a new one. */
  def first: Place = new Place(0L, 0L)
}
