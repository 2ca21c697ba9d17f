package io.cleancut.engine.memory

/**
 * The hash of a key: a chain of folded 64 × 64 → 128 bit products over the 8-byte words, similar to
 * wyhash (Wang Yi). The index of a base uses it ("Index" in `docs/FORMAT.md`), so it never changes.
 */
object KeyHash {
  private val Seed = 0x9e3779b97f4a7c15L
  private val Multiplier = 0xd6e8feb86659fd93L

  /** 64 well-mixed bits of `sizeBytes` bytes at an offset. */
  def hash64(memory: Memory, base: AnyRef, offset: Long, sizeBytes: Int): Long = {
    var h = Seed ^ sizeBytes
    val words = sizeBytes & ~7
    var i = 0
    while (i < words) {
      h = fold(h ^ memory.getLong(base, offset + i)) + Seed
      i += 8
    }
    if (i < sizeBytes) {
      var last = 0L
      while (i < sizeBytes) {
        last = (last << 8) | (memory.getByte(base, offset + i) & 0xffL)
        i += 1
      }
      h = fold(h ^ last) + Seed
    }
    fold(h)
  }

  /** The upper half of [[hash64]], by which the hash index is ordered. */
  def hash32(memory: Memory, base: AnyRef, offset: Long, sizeBytes: Int): Int =
    (hash64(memory, base, offset, sizeBytes) >>> 32).toInt

  private def fold(x: Long): Long = Math.multiplyHigh(x, Multiplier) ^ (x * Multiplier)
}
