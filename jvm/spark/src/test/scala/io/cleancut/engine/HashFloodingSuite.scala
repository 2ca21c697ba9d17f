package io.cleancut.engine

import java.nio.ByteBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{Bytes, HashLimit, KeyHash, MemoryAccount, RawMemory, SeededHash}
import io.cleancut.testkit.{CheckedMemory, TestMemory}

/** Keys of an attacker that all have one hash. The suite counts memory accesses, not time. */
class HashFloodingSuite extends AnyFunSuite {
  import HashFloodingSuite._

  test("chosen keys have one hash, and each seed of the seeded hash spreads them") {
    val memory = RawMemory
    val keys = Seq.tabulate(1000)(i => bytes(ChosenKeys.key(i.toLong)))
    val hashes = keys.map(k => KeyHash.hash64(memory, k.base, k.offset, k.length))
    assert(hashes.distinct.size == 1)
    for (seed <- 1L to 3L) {
      val hash = new SeededHash(seed, -seed)
      assert(keys.map(k => hash.hash32(memory, k.base, k.offset, k.length)).distinct.size > 995)
    }
  }

  for (isOrdered <- Seq(false, true))
    test(s"puts and gets of chosen keys need as few reads as other keys, ordered $isOrdered") {
      val limit = HashLimit.process
      val others = readsPerKey(spread, isOrdered, limit)
      val chosen = readsPerKey(ChosenKeys.key, isOrdered, limit)
      val unlimited = readsPerKey(ChosenKeys.key, isOrdered, limit.copy(maxChain = Int.MaxValue))
      info(s"reads for a key: $chosen if chosen, $unlimited without the limit, $others otherwise")
      assert(chosen < 10 * others)
      assert(unlimited > 100 * others)
    }

  test("an index is seeded when its limit is exceeded, which ordinary keys never do") {
    for ((keyOf, isSeeded) <- Seq((ChosenKeys.key _, true), (plain _, false)))
      TestMemory.using("fast") { owned =>
        val table = new Table(owned.memory, owned.account, "keys")
        for (i <- 0L until 50000L) table.put(bytes(keyOf(i)), bytes(Array[Byte](1)))
        assert(table.isSeeded == isSeeded)
        table.free()
      }
  }

  private def plain(i: Long) = ByteBuffer.allocate(8).putLong(i).array

  private def spread(i: Long) = ByteBuffer.allocate(16).putLong(i * Spread).array

  private def readsPerKey(
      keyOf: Long => Array[Byte],
      isOrdered: Boolean,
      limit: HashLimit
  ): Long = {
    val memory = new CountedReads
    val order = Option.when(isOrdered)(new FirstByteRank(memory))
    val table = new Table(memory, MemoryAccount.over(memory), "chosen", order, limit)
    val keys = Array.tabulate(Keys)(i => bytes(keyOf(i.toLong)))
    keys.foreach(key => table.put(key, key))
    keys.foreach(key => assert(table.find(key, Record.NoBound) != 0L))
    table.free()
    memory.reads / Keys
  }
}

object HashFloodingSuite {
  private val Keys = 3000
  private val Spread = 0x9e3779b97f4a7c15L

  private def bytes(array: Array[Byte]) = Bytes.of(array)

  final private class CountedReads extends CheckedMemory(RawMemory) {
    var reads = 0L

    override def getLong(base: AnyRef, offset: Long): Long = {
      reads += 1
      RawMemory.getLong(base, offset)
    }
  }
}
