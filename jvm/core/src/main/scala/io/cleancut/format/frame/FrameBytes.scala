package io.cleancut.format.frame

import java.io.Closeable

/** The bytes of a frame with positioned reads. For one thread at a time. */
trait FrameBytes extends Closeable {

  /** Length of the complete frame. */
  def length: Long

  /**
   * Reads `count` bytes from `offset` on to the start of `into`.
   *
   * @throws java.io.IOException
   *   if they cannot be read
   */
  def read(offset: Long, into: Array[Byte], count: Int): Unit

  /**
   * Discards the local copy of these bytes, which is corrupted. Returns whether the next read
   * fetches them again, which happens once for the same bytes.
   */
  def giveUp(offset: Long, count: Long): Boolean = false

  /** Whether nothing remains to be fetched. */
  def areAvailable: Boolean = true

  /** Runs `action` when nothing remains to be fetched, if that happens; in any thread. */
  def onAvailable(action: Runnable): Unit = action.run()
}
