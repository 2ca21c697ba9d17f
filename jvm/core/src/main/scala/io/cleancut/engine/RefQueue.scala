package io.cleancut.engine

import java.util.Arrays

/** Refs in ascending order, added at one end and taken at the other. */
final class RefQueue {
  private var refs = new Array[Int](RefQueue.InitialSize)
  private var from = 0
  private var until = 0

  def add(ref: Int): Unit = {
    if (until == refs.length) makeRoom()
    refs(until) = ref
    until += 1
  }

  /** Removes and returns the oldest ref if it is below `end`, otherwise 0. */
  def takeBelow(end: Int): Int =
    if (from < until && Integer.compareUnsigned(refs(from), end) < 0) {
      from += 1
      refs(from - 1)
    } else {
      if (from == until && refs.length > RefQueue.InitialSize)
        refs = new Array(RefQueue.InitialSize)
      if (from == until) {
        from = 0
        until = 0
      }
      0
    }

  /** Drops the refs at or above `end`. */
  def truncate(end: Int): Unit =
    while (until > from && Integer.compareUnsigned(refs(until - 1), end) >= 0) until -= 1

  private def makeRoom(): Unit = {
    val count = until - from
    val length = if (count > refs.length / 2) refs.length * 2 else refs.length
    refs = Arrays.copyOf(Arrays.copyOfRange(refs, from, until), length)
    from = 0
    until = count
  }
}

object RefQueue {
  private val InitialSize = 16
}
