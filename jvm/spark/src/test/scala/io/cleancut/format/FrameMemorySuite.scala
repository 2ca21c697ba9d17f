package io.cleancut.format

import java.lang.management.ManagementFactory

import com.sun.management.ThreadMXBean
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.testkit.Frames
import io.cleancut.format.frame.BlockScratch

/** A damaged length must not allocate the memory that it declares. */
class FrameMemorySuite extends AnyFunSuite {
  private val threads = ManagementFactory.getThreadMXBean.asInstanceOf[ThreadMXBean]

  private val frame = Frames.write(Frames.base(Frames.version(1), keys = 1)) { writer =>
    val scratch = BlockScratch.borrow()
    writer.writeBlock(scratch, rawLength = 1000, recordCount = 1)
    scratch.giveBack()
    writer.finish(1L)
  }
  private val firstBlock = 16 + frame.identity.toJson.length

  for ((field, at) <- Seq("identity" -> 8, "raw block" -> firstBlock, "block" -> (firstBlock + 4)))
    test(s"a damaged length of the $field allocates little memory") {
      // Bits that increase the length by 64 KiB to 2 GiB.
      for (bit <- 16 until 32) withClue(s"bit $bit: ") {
        val damaged = frame.bytes.clone()
        damaged(at + bit / 8) = (damaged(at + bit / 8) ^ (1 << (bit % 8))).toByte
        val before = threads.getCurrentThreadAllocatedBytes
        intercept[CleancutException](readAll(damaged))
        assert(threads.getCurrentThreadAllocatedBytes - before < (2 << 20))
      }
    }

  private def readAll(bytes: Array[Byte]): Unit =
    Frames.read(frame.request, bytes)((reader, _) => while (reader.nextBlock() > 0) {})
}
