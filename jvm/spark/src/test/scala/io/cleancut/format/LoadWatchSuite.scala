package io.cleancut.format

import java.io.{ByteArrayInputStream, InputStream}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Frames, ManualClock}
import io.cleancut.format.frame.{BlockScratch, FrameReader, LoadPhase, LoadWatch}

class LoadWatchSuite extends AnyFunSuite {

  /** Goes on by what happens, and counts who looks at it. */
  private class Hands extends ManualClock {
    var looks = 0
    override def monotonicNs(): Long = {
      looks += 1
      super.monotonicNs()
    }
  }

  /** Takes a nanosecond for each byte. */
  private class Slow(bytes: Array[Byte], clock: Hands) extends InputStream {
    private val in = new ByteArrayInputStream(bytes)
    override def read(): Int = {
      clock.advance(1, NANOSECONDS)
      in.read()
    }
    override def read(into: Array[Byte], from: Int, count: Int): Int = {
      val got = in.read(into, from, count)
      clock.advance(Math.max(got, 0).toLong, NANOSECONDS)
      got
    }
  }

  private val records = 5000
  private val frame = Frames.write(Frames.base(Frames.version(1), keys = records.toLong * 3)) {
    writer =>
      val scratch = BlockScratch.borrow()
      for (_ <- 0 until 3) {
        val length = records * 13
        scratch.growRaw(length)
        for (i <- 0 until length) scratch.raw(i) = (i * 31).toByte
        writer.writeBlock(scratch, length, records)
      }
      scratch.giveBack()
      writer.finish(records.toLong * 3)
  }

  private def read(clock: Hands, watch: LoadWatch): Unit = {
    val scratch = BlockScratch.borrow()
    val in = new Slow(frame.bytes, clock)
    val reader = new FrameReader(frame.request, in, scratch, watch)
    while (reader.nextBlock() > 0) clock.advance(1, MILLISECONDS)
    scratch.giveBack()
  }

  test("a load's time is that of its phases, and nothing besides") {
    val clock = new Hands
    val watch = new LoadWatch.Running(clock)
    clock.advance(77, NANOSECONDS)
    watch.addCutBytes(9)
    watch.enter(LoadPhase.Index)
    read(clock, watch)
    watch.enter(LoadPhase.Find)
    assert(watch.spent(LoadPhase.Find) == 77)
    // One nanosecond more: that the stream ends shows by one read of a byte.
    assert((0L to 1L).contains(watch.spent(LoadPhase.Download) - frame.bytes.length))
    assert(watch.spent(LoadPhase.Index) == 3 * 1000000L)
    val phases = Seq(LoadPhase.Find, LoadPhase.Download, LoadPhase.Decode, LoadPhase.Index)
    assert(phases.map(watch.spent).sum == clock.nowNs)
    assert(watch.cutBytes == 9 && watch.decodedBytes == 3L * records * 13)
  }

  test("the clock is looked at for blocks and not for records") {
    val clock = new Hands
    read(clock, new LoadWatch.Running(clock))
    assert(clock.looks > 0 && clock.looks <= 50, s"${clock.looks} looks for ${3 * records} records")
  }

  test("who loads nothing looks at no clock") {
    val clock = new Hands
    read(clock, LoadWatch.Off)
    assert(clock.looks == 0)
  }
}
