package io.cleancut.engine

import java.util.ArrayDeque
import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicReference

import io.cleancut.base.DaemonThreads
import io.cleancut.format.frame.{BlockContent, BlockScratch, FrameBlock, FrameWriter}

/**
 * The blocks of one frame, which other threads compress while the caller gathers the next one.
 *
 *   - One thread calls it, and only this thread accesses the frame and its output. So the bytes of
 *     a frame do not depend on the compressing threads.
 *   - A block owns its buffers until it has been appended. If a block is dropped while a thread
 *     compresses it, that thread releases its buffers.
 *   - At most [[BlockQueue.MaxUnderWay]] blocks are queued. If no thread has begun a block when it
 *     is due, the caller compresses it, so that the caller never waits longer than the compression
 *     of one block.
 */
final class BlockQueue(frame: FrameWriter) {
  import BlockQueue._

  private val underWay = new ArrayDeque[Job]
  private var current: BlockScratch = _

  /** The buffers of the block that is being gathered. */
  def scratch: BlockScratch = {
    if (current == null) current = BlockScratch.borrow()
    current
  }

  /** Queues the gathered block. */
  def add(rawLength: Int, records: Int, content: Option[BlockContent] = None): Unit = {
    val job = new Job(frame.block(current, rawLength, records, content), current)
    current = null
    underWay.add(job)
    threads.execute(job)
    appendDone()
    if (underWay.size > MaxUnderWay) appendNext()
  }

  /** Appends all blocks. The caller ends the frame. */
  def finish(): Unit = while (!underWay.isEmpty) appendNext()

  /** Drops blocks that have not been appended. Has no effect after [[finish]]. */
  def close(): Unit = {
    while (!underWay.isEmpty) underWay.poll().drop()
    if (current != null) current.giveBack()
    current = null
  }

  private def appendDone(): Unit =
    while (!underWay.isEmpty && underWay.peek().isDone) appendNext()

  /** A block that cannot be appended stays queued. Its buffers are released when it is dropped. */
  private def appendNext(): Unit = {
    val job = underWay.peek()
    job.await()
    frame.append(job.block)
    underWay.poll().drop()
  }
}

object BlockQueue {

  /** Largest number of queued blocks of one frame: a core or two ahead of the gathering thread. */
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
      // The thread that dropped the block concurrently left its buffers to this thread.
      if (!stage.compareAndSet(Running, end)) scratch.giveBack()
      ended.countDown()
    }

    /** Compresses the block if no thread has begun to. Throws the error of another thread. */
    def await(): Unit = {
      run()
      var isInterrupted = false
      // An interrupt must not leave the frame half-appended, and compressing a block is fast.
      while (ended.getCount > 0)
        try ended.await()
        catch { case _: InterruptedException => isInterrupted = true }
      if (isInterrupted) Thread.currentThread.interrupt()
      stage.get match {
        case Failed(cause) => throw cause
        case _             => ()
      }
    }

    /** Releases the buffers now, or when the thread that uses them has finished. */
    def drop(): Unit = {
      val before = stage.getAndSet(Dropped)
      if ((before ne Running) && (before ne Dropped)) scratch.giveBack()
    }
  }
}
