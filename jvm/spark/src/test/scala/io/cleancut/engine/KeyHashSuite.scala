package io.cleancut.engine

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{KeyHash, Memory, RawMemory, SeededHash}
import io.cleancut.testkit.{Blob, Seeded, TestMemory}

class KeyHashSuite extends AnyFunSuite with Seeded {
  test("a key has one hash, wherever its bytes are stored") {
    forSeeds(50) { random =>
      TestMemory.using("checked") { owned =>
        val key = Blob.random(random, random.nextInt(70))
        val padded = Array.fill[Byte](key.length + 11)(random.nextInt().toByte)
        key.copyToArray(padded, 11)
        val address = owned.account.allocate(key.length + 16L)
        val from = Memory.ByteArrayOffset + 11
        owned.memory.copy(padded, from, null, address + 5, key.length.toLong)
        val hashes = Seq(
          KeyHash.hash64(owned.memory, Blob.bytes(key).base, Memory.ByteArrayOffset, key.length),
          KeyHash.hash64(owned.memory, padded, from, key.length),
          KeyHash.hash64(owned.memory, null, address + 5, key.length)
        )
        owned.account.free(address, key.length + 16L)
        assert(hashes.distinct.size == 1)
      }
    }
  }

  test("keys that differ in one bit, or by a trailing zero, have different hashes") {
    forSeeds(20) { random =>
      val key = Blob.random(random, 1 + random.nextInt(40))
      val flipped =
        for (i <- key.indices; bit <- 0 until 8)
          yield key.updated(i, (key(i) ^ (1 << bit)).toByte)
      val keys = (key +: key.appended(0.toByte) +: Blob.of() +: Blob.of(0) +: flipped).distinct
      assert(keys.map(hash).distinct.size == keys.size)
    }
  }

  test("consecutive numbers fill the index evenly") {
    val homes = (0 until 1 << 14).map { i =>
      val key = Blob.of(Seq.tabulate(8)(b => (i >>> (8 * b)).toByte): _*)
      (hash(key) >>> 56).toInt & 0xff
    }
    val counts = homes.groupBy(identity).map(_._2.size)
    assert(counts.size == 256)
    assert(counts.min > 20 && counts.max < 130, s"expected 64 keys per bucket: $counts")
  }

  test("the seeded hash matches the published test vectors") {
    val seeded = new SeededHash(0x0706050403020100L, 0x0f0e0d0c0b0a0908L)
    val expected = Map(
      0 -> 0x726fdb47dd0e0e31L,
      1 -> 0x74f839c593dc67fdL,
      7 -> 0xab0200f58b01d137L,
      8 -> 0x93f5f5799a932462L,
      15 -> 0xa129ca6149be45e5L
    )
    for ((length, hash) <- expected) {
      val bytes = Blob.bytes(Blob.of(Seq.tabulate(length)(_.toByte): _*))
      assert(seeded.hash64(RawMemory, bytes.base, bytes.offset, length) == hash)
    }
  }

  private def hash(key: Blob.Blob): Long = {
    val bytes = Blob.bytes(key)
    KeyHash.hash64(RawMemory, bytes.base, bytes.offset, bytes.length)
  }
}
