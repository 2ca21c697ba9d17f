package io.cleancut.engine

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Seeded, TestMemory}

class OrderedIndexSuite extends AnyFunSuite with Seeded {
  import OrderedIndexSuite._

  for ((name, pairs) <- Orders)
    test(s"an index holds the pairs of a sorted set, inserted $name") {
      forSeeds(4) { random =>
        using { both =>
          pairs(random).foreach(both.insert)
          both.verify()
        }
      }
    }

  test("an index holds the pairs of a sorted set through inserts and removals") {
    forSeeds(10) { random =>
      using { both =>
        for (_ <- 0 until 6000)
          if (random.nextInt(5) < 3) both.insert((random.nextInt(20).toLong, random.nextInt()))
          else both.removeAny(random)
        both.verify()
      }
    }
  }

  test("an index that ran empty fills again") {
    using { both =>
      val random = new Random(1)
      for (_ <- 0 until 3) {
        for (ref <- 1 to 1000) both.insert((ref % 3L, ref))
        while (both.size > 0) both.removeAny(random)
        both.verify()
      }
      for (ref <- 1000 to 1 by -1) both.insert((ref % 3L, ref))
      both.verify()
    }
  }

  test("a scan in pieces goes on after the last one, whatever was inserted and removed") {
    forSeeds(20) { random =>
      using { both =>
        for (_ <- 0 until 500) both.insert((random.nextInt(3).toLong, random.nextInt()))
        val before = both.refsOf(1L)
        val piece = new Array[Int](1 + random.nextInt(9))
        var found = Vector.empty[Int]
        var count = both.index.refsOf(1L, 0, piece)
        while (count > 0) {
          found ++= piece.take(count)
          for (_ <- 0 until 20) both.insert((random.nextInt(3).toLong, random.nextInt()))
          for (_ <- 0 until 20) both.removeAny(random)
          count = both.index.refsOf(1L, found.last, piece)
        }
        assert(found == found.distinct.sortWith(Integer.compareUnsigned(_, _) < 0))
        val kept = before.filter(both.refsOf(1L).toSet)
        assert(kept.forall(found.toSet))
      }
    }
  }

  test("a pair that bounds a node is found beside a first child that took smaller ones") {
    using { both =>
      // Descending, so that every split leaves the first bound behind as it was.
      for (ref <- Count to 1 by -1) both.insert((0L, ref))
      for (ref <- 1 to Count) both.remove((0L, ref))
      both.verify()
    }
  }

  test("removing a pair that is not there is refused") {
    using { both =>
      both.insert((1L, 5))
      intercept[IllegalArgumentException](both.index.remove(1L, 6))
      intercept[IllegalArgumentException](both.index.remove(2L, 5))
      both.verify()
    }
  }

  private def using(body: Both => Any): Unit = TestMemory.using("checked") { owned =>
    val both = new Both(new OrderedIndex(owned.memory, owned.account))
    body(both)
    both.index.free()
  }
}

object OrderedIndexSuite {
  private type Pair = (Long, Int)

  private val Count = 3000

  /** Refs are unsigned: those above 2^31 come last. */
  private val InOrder: Ordering[Pair] = (a, b) => {
    val byRank = java.lang.Long.compare(a._1, b._1)
    if (byRank != 0) byRank else Integer.compareUnsigned(a._2, b._2)
  }

  private val Orders: Seq[(String, Random => Seq[Pair])] = Seq(
    "at random" -> (random => Seq.fill(Count)((random.nextLong(), random.nextInt()))),
    "with few ranks" -> (random => Seq.fill(Count)((random.nextInt(5) - 2L, random.nextInt()))),
    "with one rank" -> (random => Seq.fill(Count)((Long.MinValue, random.nextInt()))),
    "ascending" -> (_ => (1 to Count).map(i => ((i / 100).toLong, i))),
    "descending" -> (_ => (Count to 1 by -1).map(i => ((i / 100).toLong, i))),
    "with refs around 2^31" -> (_ => (0 until Count).map(i => (7L, Int.MaxValue - Count / 2 + i)))
  )

  /** The index and the set that it must equal. */
  private class Both(val index: OrderedIndex) {
    private val pairs = mutable.TreeSet.empty[Pair](InOrder)

    def size: Int = pairs.size

    def insert(pair: Pair): Unit = if (pair._2 != 0 && pairs.add(pair)) {
      index.insert(pair._1, pair._2)
    }

    def removeAny(random: Random): Unit = if (pairs.nonEmpty) {
      val near = (random.nextInt(22).toLong, random.nextInt())
      val pair = pairs.rangeFrom(near).headOption.getOrElse(pairs.head)
      remove(pair)
    }

    def remove(pair: Pair): Unit = {
      pairs -= pair
      index.remove(pair._1, pair._2)
    }

    def refsOf(rank: Long): Seq[Int] = {
      val piece = new Array[Int](37)
      Iterator
        .iterate(Seq(0))(found => found ++ piece.take(index.refsOf(rank, found.last, piece)))
        .sliding(2)
        .collectFirst { case Seq(a, b) if a.length == b.length => a.tail }
        .get
    }

    def verify(): Unit = {
      assert(index.size == pairs.size)
      val ranks = pairs.toSeq.groupMap(_._1)(_._2)
      ranks.take(300).foreach { case (rank, refs) => assert(refsOf(rank) == refs) }
      for (absent <- Seq(Long.MaxValue, 1L << 40))
        assert(ranks.contains(absent) || refsOf(absent).isEmpty)
    }
  }
}
