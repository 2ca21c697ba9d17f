package io.cleancut.engine

import java.util.ArrayDeque
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicReference

import io.cleancut.base.DaemonThreads
import io.cleancut.format.frame.{BlockContent, BlockScratch, FrameBlock, FrameWriter}

/**
 * The blocks of one frame, compressed by other threads while the caller gathers the next one.
 *
 *   - One thread calls it, and only this thread touches the frame and what lies below it: so the
 *     bytes of a frame are what they would be if it compressed them itself.
 *   - A block's buffers are the block's alone until it has been appended; those of a block that is
 *     dropped while it is being compressed are given back by the thread that compresses it.
 *   - At most [[BlockQueue.MaxUnderWay]] blocks are under way. What no other thread has begun when
 *     it is due the caller compresses itself, so that it never waits for longer than one block
 *     takes.
 */
final class BlockQueue(frame: FrameWriter) {
  import BlockQueue._

  private val underWay = new ArrayDeque[Job]
  private var current: BlockScratch = _

  /** Where the next block is gathered. */
  def scratch: BlockScratch = {
    if (current == null) current = BlockScratch.borrow()
    current
  }

  /** Takes what has been gathered as the next block. */
  def add(rawLength: Int, records: Int, content: Option[BlockContent] = None): Unit = {
    val job = new Job(frame.block(current, rawLength, records, content), current)
    current = null
    underWay.add(job)
    threads.execute(job)
    appendDone()
    if (underWay.size > MaxUnderWay) appendNext()
  }

  /** Appends all blocks; the end of the frame is the caller's. */
  def finish(): Unit = while (!underWay.isEmpty) appendNext()

  /** Drops what has not been appended. Does nothing after [[finish]]. */
  def close(): Unit = {
    while (!underWay.isEmpty) underWay.poll().drop()
    if (current != null) current.giveBack()
    current = null
  }

  private def appendDone(): Unit =
    while (!underWay.isEmpty && underWay.peek().isDone) appendNext()

  /** A block that cannot be appended stays under way: its buffers go back when it is dropped. */
  private def appendNext(): Unit = {
    val job = underWay.peek()
    job.await()
    frame.append(job.block)
    underWay.poll().drop()
  }
}

object BlockQueue {

  /** Blocks of one frame that wait, at most: a core or two ahead of a thread that gathers. */
  private[engine] val MaxUnderWay: Int = 4

  private lazy val threads =
    DaemonThreads.pool("cleancut-compress", Runtime.getRuntime.availableProcessors)

  sealed private trait Stage
  private case object Waiting extends Stage
  private case object Running extends Stage
  private case object Done extends Stage
  private case object Dropped extends Stage
  final private case class Failed(cause: Throwable) extends Stage

  final private class Job(val block: FrameBlock, scratch: BlockScratch) extends Runnable {
    private val stage = new AtomicReference[Stage](Waiting)
    private val ended = new CountDownLatch(1)

    def isDone: Boolean = stage.get eq Done

    override def run(): Unit = if (stage.compareAndSet(Waiting, Running)) {
      val end =
        try {
          block.compress()
          Done
        } catch { case e: Throwable => Failed(e) }
      // Whoever dropped it meanwhile left the buffers to this thread.
      if (!stage.compareAndSet(Running, end)) scratch.giveBack()
      ended.countDown()
    }

    /** Compresses the block if nobody has begun to; throws what another thread failed with. */
    def await(): Unit = {
      run()
      var isInterrupted = false
      // A kill must not leave the frame half-appended, and a block is soon done.
      while (ended.getCount > 0)
        try ended.await()
        catch { case _: InterruptedException => isInterrupted = true }
      if (isInterrupted) Thread.currentThread.interrupt()
      stage.get match {
        case Failed(cause) => throw cause
        case _             => ()
      }
    }

    /** Gives the buffers back, now or when the thread that uses them is through. */
    def drop(): Unit = {
      val before = stage.getAndSet(Dropped)
      if ((before ne Running) && (before ne Dropped)) scratch.giveBack()
    }
  }
}
