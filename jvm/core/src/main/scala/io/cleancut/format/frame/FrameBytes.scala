package io.cleancut.format.frame

import java.io.Closeable

/** The bytes of a frame that are read where they are wanted. In one thread at a time. */
trait FrameBytes extends Closeable {

  /** Of the whole frame. */
  def length: Long

  /**
   * Fills `into` from 0 with `count` bytes from `offset` on.
   *
   * @throws java.io.IOException
   *   they cannot be had
   */
  def read(offset: Long, into: Array[Byte], count: Int): Unit

  /**
   * Discards the local copy of these bytes, which proved to be damaged. Returns whether the next
   * read fetches them again; it does so once for the same bytes.
   */
  def giveUp(offset: Long, count: Long): Boolean = false

  /** Whether nothing has to be fetched any more. */
  def areAtHand: Boolean = true

  /** Runs `action` as soon as they are, if that ever comes; in any thread. */
  def whenAtHand(action: Runnable): Unit = action.run()
}
