package io.cleancut.engine

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.Bytes
import io.cleancut.testkit.{Seeded, TestMemory}

/**
 * Compares the index with a map, with colliding hashes and tags, and full buckets at the end of the
 * table.
 */
class HashIndexSuite extends AnyFunSuite with Seeded {
  import HashIndexSuite._

  for ((name, hashOf) <- Hashes)
    test(s"an index finds exactly the inserted entries that were not deleted, with $name hashes") {
      forSeeds(20) { random =>
        using { pairs =>
          for (_ <- 0 until 2000) random.nextInt(10) match {
            case n if n < 5 => pairs.insert(hashOf(random.nextInt()))
            case n if n < 9 => pairs.deleteAny(random.nextInt())
            case _          => pairs.replaceAny(random.nextInt())
          }
          pairs.verify()
        }
      }
    }

  test("an index refuses to delete a slot without an entry") {
    TestMemory.using("checked") { owned =>
      val index = new HashIndex(owned.memory, owned.account)
      index.reserve()
      index.insert(7, 1)
      for (slot <- Seq(0, 8)) intercept[IllegalArgumentException](index.delete(slot))
      assert(index.size == 1)
      index.free()
    }
  }

  test("an index is empty after all entries are deleted") {
    forSeeds(10) { random =>
      using { pairs =>
        for (_ <- 0 until 500) pairs.insert(random.nextInt(8) << 29)
        while (pairs.size > 0) {
          pairs.deleteAny(random.nextInt())
          if (pairs.size % 50 == 0) pairs.verify()
        }
        pairs.verify()
      }
    }
  }

  test("an entry far from its home is found after the entries before it are deleted") {
    forSeeds(5) { random =>
      using { pairs =>
        for (_ <- 0 until 3000) pairs.insert(-1)
        while (pairs.size > 1) pairs.deleteAny(random.nextInt())
        pairs.verify()
        for (_ <- 0 until 100) pairs.insert(random.nextInt())
        pairs.verify()
      }
    }
  }

  test("reserved memory is not allocated again while it is filled") {
    TestMemory.using("checked") { owned =>
      val index = new HashIndex(owned.memory, owned.account)
      index.reserve(10000L)
      val reserved = owned.account.usedBytes
      for (i <- 1 to 10000) {
        index.reserve()
        index.insert(i << 13, i)
      }
      assert(owned.account.usedBytes == reserved)
      assert(index.size == 10000)
      index.free()
      index.free()
    }
  }

  test("an index observes its fill limit") {
    using { pairs =>
      for (i <- 0 until 5000) {
        pairs.insert(i * 0x9e3779b9)
        assert(pairs.size * 8L <= pairs.index.sizeBytes * 0.55 + 8)
      }
    }
  }

  private def using(body: Pairs => Any): Unit = TestMemory.using("checked") { owned =>
    val pairs = new Pairs(new HashIndex(owned.memory, owned.account))
    body(pairs)
    pairs.index.free()
  }
}

object HashIndexSuite {

  /** Hashes of a random number: random, crowded at one end, or all equal. */
  private val Hashes: Seq[(String, Int => Int)] = Seq(
    "random" -> identity,
    "crowded" -> (n => (n & 3) - 2),
    "equal" -> (_ => -1),
    "clustered" -> (n => (n & 0x80000000) | (n & 0xff)),
    "equally tagged" -> (_ << 7)
  )

  /** Refs by hash, in an index and in a map. */
  private class Pairs(val index: HashIndex) {
    private val hashes = mutable.LinkedHashMap.empty[Int, Int]
    private var refs = 0

    def size: Int = index.size

    def insert(hash: Int): Unit = {
      index.reserve()
      refs += 1
      index.insert(hash, refs)
      hashes(refs) = hash
    }

    def deleteAny(choice: Int): Unit = any(choice).foreach { case (ref, hash) =>
      index.delete(slotOf(hash, ref))
      hashes -= ref
    }

    def replaceAny(choice: Int): Unit = any(choice).foreach { case (ref, hash) =>
      refs += 1
      index.set(slotOf(hash, ref), hash, refs)
      hashes -= ref
      hashes(refs) = hash
    }

    def verify(): Unit = {
      assert(index.size == hashes.size)
      hashes.foreach { case (ref, hash) =>
        assert(HashIndex.refOf(index.word(slotOf(hash, ref))) == ref)
        assert(HashIndex.hashOf(index.word(slotOf(hash, ref))) == hash)
      }
      val slots = (0 until (index.sizeBytes / 8).toInt).filter(_ % 8 != 0)
      assert(slots.count(index.word(_) != 0L) == hashes.size)
      assert(slotOf(0x5a5a5a5a, ref = -1) == 0)
      ()
    }

    private def any(choice: Int): Option[(Int, Int)] =
      hashes.drop(Math.floorMod(choice, Math.max(hashes.size, 1))).headOption

    /** The slot of the pair; 0 if there is none. */
    private def slotOf(hash: Int, ref: Int): Int =
      index.find(hash, new Bytes, (entry, _) => entry == ref)
  }
}
