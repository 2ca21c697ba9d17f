package io.cleancut.format

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

  /** Gives up a copy that proved to be damaged; whether there is something to read instead. */
  def giveUp(): Boolean = false

  /** Whether nothing has to be fetched any more. */
  def areAtHand: Boolean = true

  /** Runs `action` as soon as they are, if that ever comes; in any thread. */
  def whenAtHand(action: Runnable): Unit = action.run()
}
