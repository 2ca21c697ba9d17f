package io.cleancut.engine

/**
 * A B+ tree over (rank, ref) pairs in off-heap nodes: rank is a signed 64-bit number that the
 * caller derives from a key, ref the first record of that key. Leaves are not merged when they run
 * empty; entries are only removed by a rollback, and compaction builds a new tree.
 *
 * Node, 16-byte header: count i32, height i32 (0 for a leaf), then `Fanout` ranks (8 bytes each),
 * `Fanout` refs (4 bytes each) and, above the leaves, `Fanout` children (8 bytes each). An inner
 * node's entry i bounds child i from below, but for entry 0, whose child takes everything smaller
 * than entry 1.
 */
final class OrderedIndex(memory: Memory, account: MemoryAccount) {
  import OrderedIndex._

  private var root = newNode(0)
  private var entries = 0L

  def size: Long = entries

  def insert(rank: Long, ref: Int): Unit = {
    val right = insertBelow(root, rank, ref)
    if (right != 0L) {
      val top = newNode(height(root) + 1)
      setEntry(top, 0, rankAt(root, 0), refAt(root, 0))
      setChild(top, 0, root)
      setEntry(top, 1, rankAt(right, 0), refAt(right, 0))
      setChild(top, 1, right)
      setCount(top, 2)
      root = top
    }
    entries += 1
  }

  /** Removes the pair, which must be present. */
  def remove(rank: Long, ref: Int): Unit = {
    var node = root
    while (height(node) > 0) node = child(node, childFor(node, rank, ref))
    val at = lowerBound(node, rank, ref)
    require(
      at < count(node) && rankAt(node, at) == rank && refAt(node, at) == ref,
      s"no entry $rank/$ref to remove"
    )
    shift(node, at + 1, -1)
    setCount(node, count(node) - 1)
    entries -= 1
  }

  /**
   * Fills `refs` with the refs of `rank` that are greater than `after`, ascending, and returns how
   * many there are, at most its length. A scan in pieces stays right through inserts and splits.
   */
  def refsOf(rank: Long, after: Int, refs: Array[Int]): Int = collect(root, rank, after, refs, 0)

  def free(): Unit = if (root != 0L) {
    freeBelow(root)
    root = 0L
  }

  private def collect(node: Long, rank: Long, after: Int, refs: Array[Int], found: Int): Int = {
    var filled = found
    if (height(node) == 0) {
      var at = lowerBound(node, rank, after)
      while (at < count(node) && rankAt(node, at) == rank && filled < refs.length) {
        if (refAt(node, at) != after) {
          refs(filled) = refAt(node, at)
          filled += 1
        }
        at += 1
      }
    } else {
      var at = childFor(node, rank, after)
      // A later child may hold the rank only if its smallest entry does not lie beyond it.
      while (at < count(node) && filled < refs.length) {
        filled = collect(child(node, at), rank, after, refs, filled)
        at += 1
        if (at < count(node) && rankAt(node, at) > rank) at = count(node)
      }
    }
    filled
  }

  /** Returns the new right neighbour if the node was split, else 0. */
  private def insertBelow(node: Long, rank: Long, ref: Int): Long = {
    if (height(node) == 0) return insertAt(node, lowerBound(node, rank, ref), rank, ref, 0L)
    val at = childFor(node, rank, ref)
    val right = insertBelow(child(node, at), rank, ref)
    if (right == 0L) 0L else insertAt(node, at + 1, rankAt(right, 0), refAt(right, 0), right)
  }

  private def insertAt(node: Long, at: Int, rank: Long, ref: Int, below: Long): Long = {
    if (count(node) < Fanout) {
      place(node, at, rank, ref, below)
      return 0L
    }
    val right = newNode(height(node))
    // Ascending inserts leave full nodes behind, as a bulk load does, and not half-full ones.
    val keep = if (at == Fanout) Fanout - 1 else Fanout / 2
    val moved = Fanout - keep
    copyEntries(node, keep, right, 0, moved)
    setCount(right, moved)
    setCount(node, keep)
    if (at <= keep) place(node, at, rank, ref, below)
    else place(right, at - keep, rank, ref, below)
    right
  }

  private def place(node: Long, at: Int, rank: Long, ref: Int, below: Long): Unit = {
    shift(node, at, 1)
    setEntry(node, at, rank, ref)
    if (below != 0L) setChild(node, at, below)
    setCount(node, count(node) + 1)
  }

  /** Index of the first entry that is not smaller than the pair. */
  private def lowerBound(node: Long, rank: Long, ref: Int): Int = {
    var low = 0
    var high = count(node)
    while (low < high) {
      val mid = (low + high) >>> 1
      if (isBefore(rankAt(node, mid), refAt(node, mid), rank, ref)) low = mid + 1 else high = mid
    }
    low
  }

  /** Index of the child that the pair belongs to. Entry 0 is never asked: it bounds nothing. */
  private def childFor(node: Long, rank: Long, ref: Int): Int = {
    var low = 1
    var high = count(node)
    while (low < high) {
      val mid = (low + high) >>> 1
      if (isBefore(rank, ref, rankAt(node, mid), refAt(node, mid))) high = mid else low = mid + 1
    }
    low - 1
  }

  private def shift(node: Long, from: Int, by: Int): Unit =
    copyEntries(node, from, node, from + by, count(node) - from)

  private def copyEntries(source: Long, from: Int, target: Long, to: Int, entries: Int): Unit =
    if (entries > 0) {
      move(source + RanksAt + from * 8L, target + RanksAt + to * 8L, entries * 8L)
      move(source + RefsAt + from * 4L, target + RefsAt + to * 4L, entries * 4L)
      if (height(source) > 0) {
        move(source + ChildrenAt + from * 8L, target + ChildrenAt + to * 8L, entries * 8L)
      }
    }

  private def move(from: Long, to: Long, bytes: Long): Unit =
    memory.copy(null, from, null, to, bytes)

  private def newNode(height: Int): Long = {
    val node = account.allocate(nodeBytes(height))
    setCount(node, 0)
    memory.putInt(node + 4, height)
    node
  }

  private def freeBelow(node: Long): Unit = {
    if (height(node) > 0) {
      for (i <- 0 until count(node)) freeBelow(child(node, i))
    }
    account.free(node, nodeBytes(height(node)))
  }

  private def count(node: Long): Int = memory.getInt(node)
  private def setCount(node: Long, count: Int): Unit = memory.putInt(node, count)
  private def height(node: Long): Int = memory.getInt(node + 4)
  private def rankAt(node: Long, i: Int): Long = memory.getLong(node + RanksAt + i * 8L)
  private def refAt(node: Long, i: Int): Int = memory.getInt(node + RefsAt + i * 4L)
  private def child(node: Long, i: Int): Long = memory.getLong(node + ChildrenAt + i * 8L)

  private def setChild(node: Long, i: Int, child: Long): Unit =
    memory.putLong(node + ChildrenAt + i * 8L, child)

  private def setEntry(node: Long, i: Int, rank: Long, ref: Int): Unit = {
    memory.putLong(node + RanksAt + i * 8L, rank)
    memory.putInt(node + RefsAt + i * 4L, ref)
  }
}

object OrderedIndex {
  private val Fanout = 64
  private val RanksAt = 16
  private val RefsAt = RanksAt + Fanout * 8
  private val ChildrenAt = RefsAt + Fanout * 4

  private def nodeBytes(height: Int): Long =
    if (height == 0) ChildrenAt.toLong else ChildrenAt.toLong + Fanout * 8

  private def isBefore(rankA: Long, refA: Int, rankB: Long, refB: Int): Boolean =
    rankA < rankB || (rankA == rankB && Integer.compareUnsigned(refA, refB) < 0)
}
