package io.cleancut.engine

import java.nio.ByteBuffer

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.testkit.{Seeded, TestMemory}

class OrderedIndexSuite extends AnyFunSuite with Seeded {
  import OrderedIndexSuite._

  for ((name, entries) <- Orders)
    test(s"an index has the entries of a sorted set, inserted $name") {
      forSeeds(4) { random =>
        using { both =>
          entries(random).foreach(both.insert)
          both.verify(random)
        }
      }
    }

  test("an index has the entries of a sorted set after inserts and removals") {
    forSeeds(10) { random =>
      using { both =>
        for (_ <- 0 until 6000)
          if (random.nextInt(5) < 3) both.insert(any(random)) else both.removeAny(random)
        both.verify(random)
      }
    }
  }

  test("an empty index has released its nodes, and can be filled again") {
    using { both =>
      val random = new Random(1)
      for (_ <- 0 until 3) {
        for (ref <- 1 to 5000) both.insert(Entry(ref % 3L, ref / 100L, ref))
        while (both.size > 0) both.removeAny(random)
        both.verify(random)
        assert(both.usedBytes == both.emptyBytes)
      }
      for (ref <- 1000 to 1 by -1) both.insert(Entry(ref % 3L, 0L, ref))
      both.verify(random)
    }
  }

  test("an index that is used as a queue does not grow") {
    using { both =>
      var maxBytes = 0L
      for (ref <- 1 to 50000) {
        both.insert(Entry(ref.toLong, 0L, ref))
        if (ref > 500) both.remove(Entry(ref - 500L, 0L, ref - 500))
        if (ref == 5000) maxBytes = both.usedBytes
      }
      assert(both.usedBytes <= maxBytes * 2)
      both.verify(new Random(1))
    }
  }

  test("a scan in pieces continues after the last piece, despite inserts and removals") {
    forSeeds(20) { random =>
      using { both =>
        for (_ <- 0 until 500) both.insert(any(random))
        val before = both.refs(1L)
        val piece = new OrderedEntries(1 + random.nextInt(9))
        var scanned = Vector.empty[Int]
        val from = new Place(1L, 0L)
        val to = new Place(2L, 0L)
        both.index.fill(from, to, piece)
        while (piece.size > 0) {
          scanned ++= refsOf(piece)
          for (_ <- 0 until 20) both.insert(any(random))
          for (_ <- 0 until 20) both.removeAny(random)
          both.index.fill(from, to, piece)
        }
        assert(scanned == scanned.distinct)
        val kept = before.filter(both.refs(1L).toSet)
        assert(kept.forall(scanned.toSet))
      }
    }
  }

  test("the boundary entry of a node is found after smaller entries joined its first child") {
    using { both =>
      // Descending, so that each split keeps the first boundary.
      for (ref <- Count to 1 by -1) both.insert(Entry(0L, 0L, ref))
      for (ref <- 1 to Count) both.remove(Entry(0L, 0L, ref))
      both.verify(new Random(1))
    }
  }

  test("the removal of a missing entry is refused") {
    using { both =>
      both.insert(Entry(1L, 2L, 5))
      for (other <- Seq(Entry(1L, 2L, 6), Entry(1L, 1L, 5), Entry(2L, 2L, 5)))
        intercept[IllegalArgumentException](both.index.remove(other.key)(_ == other.ref))
      both.verify(new Random(1))
    }
  }

  private def using(body: Both => Any): Unit = TestMemory.using("checked") { owned =>
    val both = new Both(owned)
    body(both)
    both.index.free()
  }
}

object OrderedIndexSuite {
  private val Count = 3000

  /** A place and a ref. Its key names the place. */
  private case class Entry(major: Long, minor: Long, ref: Int) {
    def key: Bytes = Bytes.of(ByteBuffer.allocate(16).putLong(major).putLong(minor).array)
  }

  /** An order of unsigned numbers: those with the highest bit are last. */
  private val InOrder: Ordering[Entry] = (a, b) => {
    val byMajor = java.lang.Long.compareUnsigned(a.major, b.major)
    val byMinor = java.lang.Long.compareUnsigned(a.minor, b.minor)
    if (byMajor != 0) byMajor
    else if (byMinor != 0) byMinor
    else Integer.compareUnsigned(a.ref, b.ref)
  }

  // Derives a hash from a ref, to check that each entry keeps its hash.
  private val HashFactor = 0x9e3779b9

  private def refsOf(piece: OrderedEntries): Seq[Int] = (0 until piece.size).map { i =>
    Predef.assert(piece.hash(i) == piece.ref(i) * HashFactor)
    piece.ref(i)
  }

  private def any(random: Random): Entry =
    Entry(random.nextInt(5).toLong, random.nextInt(4) - 2L, random.nextInt())

  private val Orders: Seq[(String, Random => Seq[Entry])] = Seq(
    "at random" ->
      (random => Seq.fill(Count)(Entry(random.nextLong(), random.nextLong(), random.nextInt()))),
    "with few places" -> (random => Seq.fill(Count)(any(random))),
    "with one place" -> (random => Seq.fill(Count)(Entry(Long.MinValue, -1L, random.nextInt()))),
    "with one major number" -> (random => Seq.fill(Count)(Entry(-1L, random.nextLong(), 1))),
    // Maximally uneven: most majors are near one end of any range.
    "crowded at powers of two" -> { random =>
      Seq.fill(Count) {
        val power = 1L << random.nextInt(64)
        Entry(power + random.nextInt(3) - 1, random.nextInt(3).toLong, random.nextInt())
      }
    },
    "ascending" -> (_ => (1 to Count).map(i => Entry((i / 100).toLong, 0L, i))),
    "descending" -> (_ => (Count to 1 by -1).map(i => Entry((i / 100).toLong, 0L, i))),
    "with refs around 2^31" ->
      (_ => (0 until Count).map(i => Entry(7L, 7L, Int.MaxValue - Count / 2 + i)))
  )

  private class KeyIsPlace(memory: Memory) extends KeyOrder {
    private var place = new Place(0L, 0L)
    override def locate(key: Bytes): Unit = {
      val numbers = ByteBuffer.wrap(key.toArray(memory))
      place = new Place(numbers.getLong, numbers.getLong)
    }
    override def major: Long = place.major
    override def minor: Long = place.minor
  }

  /** The index and the set that it must equal. */
  private class Both(owned: TestMemory.Owned) {
    val index = new OrderedIndex(owned.memory, owned.account, new KeyIsPlace(owned.memory))
    private val entries = mutable.TreeSet.empty[Entry](InOrder)
    val emptyBytes: Long = usedBytes

    def usedBytes: Long = owned.account.usedBytes

    def size: Int = entries.size

    def insert(entry: Entry): Unit = if (entry.ref != 0 && entries.add(entry)) {
      index.insert(entry.key, entry.ref, entry.ref * HashFactor)
    }

    def removeAny(random: Random): Unit = if (entries.nonEmpty) {
      remove(entries.rangeFrom(any(random)).headOption.getOrElse(entries.head))
    }

    def remove(entry: Entry): Unit = {
      entries -= entry
      index.remove(entry.key)(_ == entry.ref)
    }

    def refs(major: Long): Seq[Int] =
      between(new Place(major, 0L), if (major == -1L) null else new Place(major + 1, 0L))

    private def between(from: Place, to: Place): Seq[Int] = {
      val piece = new OrderedEntries(37)
      Iterator
        .continually {
          index.fill(from, to, piece)
          refsOf(piece)
        }
        .takeWhile(_.nonEmpty)
        .flatten
        .toSeq
    }

    def verify(random: Random): Unit = {
      assert(index.size == entries.size)
      assert(between(new Place(0L, 0L), null) == entries.toSeq.map(_.ref))
      val majors = entries.toSeq.groupMap(_.major)(_.ref)
      majors.take(100).foreach { case (major, expected) => assert(refs(major) == expected) }
      for (_ <- 0 until 20) verifyRange(any(random), any(random))
    }

    private def verifyRange(a: Entry, b: Entry): Unit = {
      val inside = entries.toSeq.filter { entry =>
        InOrder.gteq(entry, a.copy(ref = 0)) && InOrder.lt(entry, b.copy(ref = 0))
      }
      assert(between(new Place(a.major, a.minor), new Place(b.major, b.minor)) == inside.map(_.ref))
    }
  }
}
