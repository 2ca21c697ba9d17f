package io.cleancut.engine.memory

import java.nio.{ByteBuffer, ByteOrder}

import io.cleancut.base.Clock

/**
 * SipHash-2-4 (Aumasson and Bernstein, "SipHash: a fast short-input PRF", 2012) of keys in memory.
 * Unlike with [[KeyHash]], a sender that does not know the seed cannot choose keys with equal
 * hashes.
 */
final class SeededHash(low: Long, high: Long) {

  /** 64 bits of `sizeBytes` bytes at an offset. */
  def hash64(memory: Memory, base: AnyRef, offset: Long, sizeBytes: Int): Long = {
    val sip = new SeededHash.State(low, high)
    val words = sizeBytes & ~7
    var i = 0
    while (i < words) {
      sip.add(memory.getLong(base, offset + i))
      i += 8
    }
    var last = sizeBytes.toLong << 56
    while (i < sizeBytes) {
      last |= (memory.getByte(base, offset + i) & 0xffL) << (8 * (i - words))
      i += 1
    }
    sip.add(last)
    sip.finish()
  }

  /** The upper half of [[hash64]]. */
  def hash32(memory: Memory, base: AnyRef, offset: Long, sizeBytes: Int): Int =
    (hash64(memory, base, offset, sizeBytes) >>> 32).toInt
}

object SeededHash {

  /** The hash of this process. Its seed is never written. */
  lazy val process: SeededHash = of(Clock.System)

  def of(clock: Clock): SeededHash = {
    val seed = ByteBuffer.wrap(clock.randomBytes(16)).order(ByteOrder.LITTLE_ENDIAN)
    new SeededHash(seed.getLong(), seed.getLong())
  }

  final private class State(low: Long, high: Long) {
    private var v0 = low ^ 0x736f6d6570736575L
    private var v1 = high ^ 0x646f72616e646f6dL
    private var v2 = low ^ 0x6c7967656e657261L
    private var v3 = high ^ 0x7465646279746573L

    def add(word: Long): Unit = {
      v3 ^= word
      round()
      round()
      v0 ^= word
    }

    def finish(): Long = {
      v2 ^= 0xffL
      for (_ <- 0 until 4) round()
      v0 ^ v1 ^ v2 ^ v3
    }

    private def round(): Unit = {
      v0 += v1
      v1 = java.lang.Long.rotateLeft(v1, 13) ^ v0
      v0 = java.lang.Long.rotateLeft(v0, 32)
      v2 += v3
      v3 = java.lang.Long.rotateLeft(v3, 16) ^ v2
      v0 += v3
      v3 = java.lang.Long.rotateLeft(v3, 21) ^ v0
      v2 += v1
      v1 = java.lang.Long.rotateLeft(v1, 17) ^ v2
      v2 = java.lang.Long.rotateLeft(v2, 32)
    }
  }
}

/**
 * The limit of a hash index against chosen keys.
 *
 * @param seeded
 *   hash of an index that has exceeded the limit
 * @param maxChain
 *   full buckets that an insert may pass. The chance of more is below 1e-17 if keys are not chosen
 *   and the index has its maximum load
 */
final case class HashLimit(seeded: SeededHash, maxChain: Int = HashLimit.MaxChain)

object HashLimit {
  private val MaxChain = 64

  lazy val process: HashLimit = HashLimit(SeededHash.process)
}
