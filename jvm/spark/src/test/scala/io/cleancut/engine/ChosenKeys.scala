package io.cleancut.engine

import java.nio.{ByteBuffer, ByteOrder}

/** Keys of an attacker that all have the same [[KeyHash]]. */
private[engine] object ChosenKeys {
  val Length = 16
  private val Seed = 0x9e3779b97f4a7c15L
  private val Multiplier = 0xd6e8feb86659fd93L

  /** The key that begins with this word. Its second word makes the last step of the hash zero. */
  def key(first: Long): Array[Byte] = {
    val mixed = Seed ^ Length ^ first
    val state = (Math.multiplyHigh(mixed, Multiplier) ^ (mixed * Multiplier)) + Seed
    ByteBuffer.allocate(Length).order(ByteOrder.LITTLE_ENDIAN).putLong(first).putLong(state).array
  }
}
