package io.cleancut.engine

import java.io.{IOException, OutputStream}
import java.util.concurrent.{CountDownLatch, Executors, TimeUnit}

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.format.FrameKind
import io.cleancut.format.frame.{BlockScratch, FrameWriter}
import io.cleancut.testkit.{Frames, Patience, Seeded}

/** Compares frames whose blocks other threads compress with frames that one thread writes. */
class BlockQueueSuite extends AnyFunSuite with Seeded {
  private val identity = Frames.delta(Frames.version(2), Some(Frames.version(1)))

  test("a frame has the same bytes as one that its writer compresses") {
    forSeeds(20) { random =>
      val raw = blocks(random, count = random.nextInt(12))
      assert(queued(raw).toSeq == written(raw).toSeq)
    }
  }

  test("concurrent frames do not mix their blocks") {
    val threads = Executors.newFixedThreadPool(8)
    try {
      val frames = for (seed <- 1 to 48) yield threads.submit { () =>
        val random = new Random(seed)
        val raw = blocks(random, count = 10)
        // Some frames are abandoned, and their buffers are reused.
        if (seed % 3 == 0) abandoned(raw, random.nextInt(10))
        queued(raw).toSeq == written(raw).toSeq
      }
      frames.foreach(frame => assert(frame.get(Patience.Seconds, TimeUnit.SECONDS)))
    } finally threads.shutdown()
  }

  test("a failed stream ends the frame, and no buffer is released twice") {
    val random = new Random(7)
    val raw = blocks(random, count = 10)
    val full = new OutputStream {
      private var left = 2
      override def write(byte: Int): Unit = ()
      override def write(bytes: Array[Byte], offset: Int, length: Int): Unit = {
        // Accepts the header and the identity, and no block.
        left -= 1
        if (left < 0) throw new IOException("full")
      }
    }
    val queue = new BlockQueue(new FrameWriter(FrameKind.Delta, identity, 1, full))
    intercept[IOException] {
      raw.foreach(fill(queue, _))
      queue.finish()
    }
    queue.close()
    queue.close()
    val borrowed = Seq.fill(64)(BlockScratch.borrow())
    assert(!hasTwins(borrowed))
    borrowed.foreach(_.giveBack())
  }

  test("an interrupt during the wait for a block does not stop the frame, and is not lost") {
    val raw = blocks(new Random(3), count = 8)
    val ended = new CountDownLatch(1)
    @volatile var bytes = Array.emptyByteArray
    @volatile var isInterrupted = false
    val thread = new Thread(() => {
      Thread.currentThread.interrupt()
      bytes = queued(raw)
      isInterrupted = Thread.currentThread.isInterrupted
      ended.countDown()
    })
    thread.start()
    assert(ended.await(Patience.Seconds, TimeUnit.SECONDS))
    assert(isInterrupted && bytes.toSeq == written(raw).toSeq)
  }

  private def blocks(random: Random, count: Int): Seq[Array[Byte]] = Seq.fill(count) {
    val block = new Array[Byte](1 + random.nextInt(200000))
    random.nextBytes(block)
    // Compressible in part, so that blocks take different times.
    java.util.Arrays.fill(block, 0, random.nextInt(block.length), 7.toByte)
    block
  }

  private def queued(raw: Seq[Array[Byte]]): Array[Byte] = Frames
    .write(identity) { frame =>
      val queue = new BlockQueue(frame)
      raw.foreach(fill(queue, _))
      queue.finish()
      queue.close()
      frame.finish(keys = 0L)
    }
    .bytes

  private def written(raw: Seq[Array[Byte]]): Array[Byte] = Frames
    .write(identity) { frame =>
      val scratch = BlockScratch.borrow()
      raw.foreach { block =>
        scratch.growRaw(block.length)
        System.arraycopy(block, 0, scratch.raw, 0, block.length)
        frame.writeBlock(scratch, block.length, recordCount = 1)
      }
      scratch.giveBack()
      frame.finish(keys = 0L)
    }
    .bytes

  private def abandoned(raw: Seq[Array[Byte]], count: Int): Unit = {
    val queue = new BlockQueue(new Frames.Open(identity).writer)
    raw.take(count).foreach(fill(queue, _))
    queue.close()
  }

  private def fill(queue: BlockQueue, block: Array[Byte]): Unit = {
    val scratch = queue.scratch
    scratch.growRaw(block.length)
    System.arraycopy(block, 0, scratch.raw, 0, block.length)
    queue.add(block.length, records = 1)
  }

  private def hasTwins(borrowed: Seq[BlockScratch]): Boolean =
    borrowed.indices.exists(i => borrowed.drop(i + 1).exists(_ eq borrowed(i)))
}
