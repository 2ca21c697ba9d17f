package io.cleancut.engine

import java.util.Arrays

import io.cleancut.engine.memory.{Bytes, Memory, MemoryAccount}

/**
 * A B+ tree over the keys of a family in off-heap nodes. An entry consists of the place of a key
 * ([[KeyOrder]]), the ref of a record with the key, and the hash of the key in [[HashIndex]], so
 * that a scan finds the newest record without reading that record. Entries of one place are ordered
 * by their refs. A node that becomes empty is freed immediately; nodes are not merged before that
 * (Johnson and Shasha, "B-trees with inserts and deletes: why free-at-empty is better than
 * merge-at-half", 1993).
 *
 * Node layout, 16-byte header: count i32, height i32 (0 for a leaf), then `Fanout` majors and
 * `Fanout` minors (8 bytes each), `Fanout` refs (4 bytes each), and `Fanout` hashes (4 bytes each)
 * in a leaf or `Fanout` children (8 bytes each) in an inner node. Entry i of an inner node is the
 * lower bound of child i, except for entry 0, whose child has all entries below entry 1.
 */
final class OrderedIndex(memory: Memory, account: MemoryAccount, order: KeyOrder) {
  import OrderedIndex._

  // Allocated nodes that are not yet used, see `reserve`.
  private var spareLeaf = 0L
  private var spareInner = new Array[Long](4)
  private var spareInners = 0

  private var root = newNode(0)
  private var entries = 0L
  private val target = new Place(0L, 0L)
  private var targetHash = 0
  private var isFound = false

  def size: Long = entries

  /**
   * Allocates the memory that the next insert may need, so that it cannot fail half-way: nodes for
   * a split of each node on its path, and for a new root.
   */
  def reserve(): Unit = {
    if (spareLeaf == 0L) spareLeaf = account.allocateIndex(nodeBytes(0))
    while (spareInners <= height(root)) {
      val node = account.allocateIndex(nodeBytes(1))
      if (spareInners == spareInner.length) spareInner = Arrays.copyOf(spareInner, spareInners * 2)
      spareInner(spareInners) = node
      spareInners += 1
    }
  }

  def insert(key: Bytes, ref: Int, hash: Int): Unit = {
    locate(key, ref)
    targetHash = hash
    val right = insertBelow(root, ref)
    if (right != 0L) {
      val top = newNode(height(root) + 1)
      copyEntry(root, 0, top, 0)
      setChild(top, 0, root)
      copyEntry(right, 0, top, 1)
      setChild(top, 1, right)
      setCount(top, 2)
      root = top
    }
    entries += 1
  }

  /**
   * Removes the entry of `key` whose ref `isWanted` accepts. The caller guarantees that there is
   * one.
   */
  def remove(key: Bytes)(isWanted: Int => Boolean): Unit = {
    locate(key, 0)
    isFound = false
    removeBelow(root, isWanted)
    require(isFound, "no such entry to remove")
    entries -= 1
    while (height(root) > 0 && count(root) == 1) {
      val top = root
      root = child(top, 0)
      freeNode(top)
    }
  }

  /** Gives each entry the hash that `hashOf` returns for its ref. */
  def rehash(hashOf: Int => Int): Unit = rehashBelow(root, hashOf)

  private def rehashBelow(node: Long, hashOf: Int => Int): Unit =
    for (i <- 0 until count(node))
      if (height(node) > 0) rehashBelow(child(node, i), hashOf)
      else memory.putInt(node + HashesAt + i * 4L, hashOf(refAt(node, i)))

  /**
   * Fills `into` with the entries between the two places, in order, until there are no more or it
   * is full. `from` moves to after the last one, so a scan in pieces stays correct if entries are
   * inserted and removed or nodes are split in between.
   */
  def fill(from: Place, to: Place, into: OrderedEntries): Unit = {
    into.clear()
    collect(root, from, to, into)
  }

  def free(): Unit = if (root != 0L) {
    freeBelow(root)
    root = 0L
    if (spareLeaf != 0L) account.free(spareLeaf, nodeBytes(0))
    for (i <- 0 until spareInners) account.free(spareInner(i), nodeBytes(1))
    spareLeaf = 0L
    spareInners = 0
  }

  private def locate(key: Bytes, ref: Int): Unit = {
    order.locate(key)
    target.major = order.major
    target.minor = order.minor
    target.ref = ref
  }

  private def collect(node: Long, from: Place, to: Place, into: OrderedEntries): Unit =
    if (height(node) == 0) {
      var at = lowerBound(node, 0, from)
      val first = at
      while (at < count(node) && !into.isFull && isBelow(node, at, to)) {
        // The place moves along, so an entry at this place was returned earlier.
        if (refAt(node, at) != from.ref || !isAt(node, at, from)) {
          into.add(refAt(node, at), hashAt(node, at))
        }
        at += 1
      }
      if (at > first) {
        from.major = majorAt(node, at - 1)
        from.minor = minorAt(node, at - 1)
        from.ref = refAt(node, at - 1)
      }
    } else {
      var at = childFor(node, from)
      while (at < count(node) && !into.isFull) {
        collect(child(node, at), from, to, into)
        at += 1
        // A later child has no entry below its lower bound.
        if (at < count(node) && !isBelow(node, at, to)) at = count(node)
      }
    }

  private def isAt(node: Long, at: Int, place: Place): Boolean =
    majorAt(node, at) == place.major && minorAt(node, at) == place.minor

  private def isBelow(node: Long, at: Int, end: Place): Boolean =
    end == null || compare(node, at, end) < 0

  /** Returns the new right neighbour if the node was split, otherwise 0. */
  private def insertBelow(node: Long, ref: Int): Long = {
    if (height(node) == 0) return insertAt(node, lowerBound(node, 0, target), ref, 0L)
    val at = childFor(node, target)
    val right = insertBelow(child(node, at), ref)
    if (right == 0L) 0L
    else {
      target.major = majorAt(right, 0)
      target.minor = minorAt(right, 0)
      insertAt(node, at + 1, refAt(right, 0), right)
    }
  }

  private def insertAt(node: Long, at: Int, ref: Int, below: Long): Long = {
    if (count(node) < Fanout) {
      place(node, at, ref, below)
      return 0L
    }
    val right = newNode(height(node))
    // Ascending inserts, as in a bulk load, leave full nodes and not half-full ones.
    val keep = if (at == Fanout) Fanout - 1 else Fanout / 2
    val moved = Fanout - keep
    copyEntries(node, keep, right, 0, moved)
    setCount(right, moved)
    setCount(node, keep)
    if (at <= keep) place(node, at, ref, below) else place(right, at - keep, ref, below)
    right
  }

  private def place(node: Long, at: Int, ref: Int, below: Long): Unit = {
    shift(node, at, 1)
    memory.putLong(node + MajorsAt + at * 8L, target.major)
    memory.putLong(node + MinorsAt + at * 8L, target.minor)
    memory.putInt(node + RefsAt + at * 4L, ref)
    if (below != 0L) setChild(node, at, below)
    else memory.putInt(node + HashesAt + at * 4L, targetHash)
    setCount(node, count(node) + 1)
  }

  /** Checks all entries of the target's place, which may be in several children. */
  private def removeBelow(node: Long, isWanted: Int => Boolean): Unit =
    if (height(node) == 0) {
      var at = lowerBound(node, 0, target)
      while (!isFound && at < count(node) && isAt(node, at, target)) {
        if (isWanted(refAt(node, at))) {
          removeAt(node, at)
          isFound = true
        }
        at += 1
      }
    } else {
      var at = childFor(node, target)
      var goOn = true
      while (!isFound && goOn && at < count(node)) {
        removeBelow(child(node, at), isWanted)
        if (isFound && count(child(node, at)) == 0) {
          freeNode(child(node, at))
          removeAt(node, at)
        }
        at += 1
        goOn = !isFound && at < count(node) && comparePlace(node, at, target) <= 0
      }
    }

  private def removeAt(node: Long, at: Int): Unit = {
    shift(node, at + 1, -1)
    setCount(node, count(node) - 1)
  }

  /**
   * Index of the first entry from `first` on that is not smaller than the place. The search starts
   * near the position that the place would have if majors were uniformly distributed, as hashes
   * are. A binary search would cause a cache miss at most of its steps.
   */
  private def lowerBound(node: Long, first: Int, place: Place): Int = {
    var low = first
    var high = count(node)
    if (high - low > MinGuessed) {
      var step = 2
      var at = guess(node, low, high - 1, place.major)
      if (compare(node, at, place) < 0) {
        low = at + 1
        at += step
        while (at < high && compare(node, at, place) < 0) {
          low = at + 1
          step *= 2
          at += step
        }
        high = Math.min(at, high)
      } else {
        high = at
        at -= step
        while (at >= low && compare(node, at, place) >= 0) {
          high = at
          step *= 2
          at -= step
        }
        low = Math.max(at + 1, low)
      }
    }
    while (low < high) {
      val mid = (low + high) >>> 1
      if (compare(node, mid, place) < 0) low = mid + 1 else high = mid
    }
    low
  }

  /** The interpolated position of a major between two entries. */
  private def guess(node: Long, first: Int, last: Int, major: Long): Int = {
    val from = majorAt(node, first)
    val span = majorAt(node, last) - from
    val offset = major - from
    if (java.lang.Long.compareUnsigned(major, from) <= 0) first
    else if (java.lang.Long.compareUnsigned(offset, span) >= 0) last
    else first + ((offset >>> 1).toDouble / (span >>> 1).toDouble * (last - first)).toInt
  }

  /**
   * Index of the first child that may have entries at or after the place. Entry 0 is not compared,
   * because it is no bound.
   */
  private def childFor(node: Long, place: Place): Int = {
    val above = lowerBound(node, 1, place)
    val isExact = above < count(node) && compare(node, above, place) == 0
    if (isExact) above else above - 1
  }

  private def compare(node: Long, at: Int, place: Place): Int = {
    val byPlace = comparePlace(node, at, place)
    if (byPlace != 0) byPlace else Integer.compareUnsigned(refAt(node, at), place.ref)
  }

  private def comparePlace(node: Long, at: Int, place: Place): Int = {
    val byMajor = java.lang.Long.compareUnsigned(majorAt(node, at), place.major)
    if (byMajor != 0) byMajor
    else java.lang.Long.compareUnsigned(minorAt(node, at), place.minor)
  }

  private def shift(node: Long, from: Int, by: Int): Unit =
    copyEntries(node, from, node, from + by, count(node) - from)

  private def copyEntry(source: Long, from: Int, to: Long, at: Int): Unit = {
    memory.putLong(to + MajorsAt + at * 8L, majorAt(source, from))
    memory.putLong(to + MinorsAt + at * 8L, minorAt(source, from))
    memory.putInt(to + RefsAt + at * 4L, refAt(source, from))
  }

  private def copyEntries(source: Long, from: Int, to: Long, at: Int, entries: Int): Unit =
    if (entries > 0) {
      move(source + MajorsAt + from * 8L, to + MajorsAt + at * 8L, entries * 8L)
      move(source + MinorsAt + from * 8L, to + MinorsAt + at * 8L, entries * 8L)
      move(source + RefsAt + from * 4L, to + RefsAt + at * 4L, entries * 4L)
      if (height(source) > 0) {
        move(source + ChildrenAt + from * 8L, to + ChildrenAt + at * 8L, entries * 8L)
      } else move(source + HashesAt + from * 4L, to + HashesAt + at * 4L, entries * 4L)
    }

  private def move(from: Long, to: Long, bytes: Long): Unit =
    memory.copy(null, from, null, to, bytes)

  private def newNode(height: Int): Long = {
    val node = takeSpare(height)
    setCount(node, 0)
    memory.putInt(node + 4, height)
    node
  }

  private def takeSpare(height: Int): Long =
    if (height == 0 && spareLeaf != 0L) {
      val node = spareLeaf
      spareLeaf = 0L
      node
    } else if (height > 0 && spareInners > 0) {
      spareInners -= 1
      spareInner(spareInners)
    } else account.allocateIndex(nodeBytes(height))

  private def freeNode(node: Long): Unit = account.free(node, nodeBytes(height(node)))

  private def freeBelow(node: Long): Unit = {
    if (height(node) > 0) {
      for (i <- 0 until count(node)) freeBelow(child(node, i))
    }
    freeNode(node)
  }

  private def count(node: Long): Int = memory.getInt(node)
  private def setCount(node: Long, count: Int): Unit = memory.putInt(node, count)
  private def height(node: Long): Int = memory.getInt(node + 4)
  private def majorAt(node: Long, i: Int): Long = memory.getLong(node + MajorsAt + i * 8L)
  private def minorAt(node: Long, i: Int): Long = memory.getLong(node + MinorsAt + i * 8L)
  private def refAt(node: Long, i: Int): Int = memory.getInt(node + RefsAt + i * 4L)
  private def hashAt(leaf: Long, i: Int): Int = memory.getInt(leaf + HashesAt + i * 4L)
  private def child(node: Long, i: Int): Long = memory.getLong(node + ChildrenAt + i * 8L)

  private def setChild(node: Long, i: Int, child: Long): Unit =
    memory.putLong(node + ChildrenAt + i * 8L, child)
}

object OrderedIndex {
  private val Fanout = 64
  private val MinGuessed = 12
  private val MajorsAt = 16
  private val MinorsAt = MajorsAt + Fanout * 8
  private val RefsAt = MinorsAt + Fanout * 8
  private val ChildrenAt = RefsAt + Fanout * 4
  private val HashesAt = ChildrenAt

  private def nodeBytes(height: Int): Long =
    if (height == 0) HashesAt.toLong + Fanout * 4 else ChildrenAt.toLong + Fanout * 8
}

/** A batch of entries of an [[OrderedIndex]]. */
final class OrderedEntries(limit: Int) {
  private val refs = new Array[Int](limit)
  private val hashes = new Array[Int](limit)
  private var count = 0

  def size: Int = count
  def isFull: Boolean = count == limit
  def ref(i: Int): Int = refs(i)
  def hash(i: Int): Int = hashes(i)
  def clear(): Unit = count = 0

  def add(ref: Int, hash: Int): Unit = {
    refs(count) = ref
    hashes(count) = hash
    count += 1
  }
}
