package io.cleancut.format

import java.io.{ByteArrayInputStream, InputStream}
import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{Frames, ManualClock}
import io.cleancut.format.frame.{BlockScratch, FrameReader, LoadPhase, LoadWatch}

class LoadWatchSuite extends AnyFunSuite {

  /** Advances with the load, and counts reads of the time. */
  private class CountingClock extends ManualClock {
    var reads = 0
    override def monotonicNs(): Long = {
      reads += 1
      super.monotonicNs()
    }
  }

  /** Needs a nanosecond per byte. */
  private class Slow(bytes: Array[Byte], clock: CountingClock) extends InputStream {
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

  private def read(clock: CountingClock, watch: LoadWatch): Unit = {
    val scratch = BlockScratch.borrow()
    val in = new Slow(frame.bytes, clock)
    val reader = new FrameReader(frame.request, in, scratch, watch)
    while (reader.nextBlock() > 0) clock.advance(1, MILLISECONDS)
    scratch.giveBack()
  }

  test("the time of a load is the sum of its phases") {
    val clock = new CountingClock
    val watch = new LoadWatch.Running(clock)
    clock.advance(77, NANOSECONDS)
    watch.addCutBytes(9)
    watch.enter(LoadPhase.Index)
    read(clock, watch)
    watch.enter(LoadPhase.Find)
    assert(watch.spent(LoadPhase.Find) == 77)
    // One nanosecond more, because the end of the stream is detected by reading one byte.
    assert((0L to 1L).contains(watch.spent(LoadPhase.Download) - frame.bytes.length))
    assert(watch.spent(LoadPhase.Index) == 3 * 1000000L)
    val phases = Seq(LoadPhase.Find, LoadPhase.Download, LoadPhase.Decode, LoadPhase.Index)
    assert(phases.map(watch.spent).sum == clock.nowNs)
    assert(watch.cutBytes == 9 && watch.decodedBytes == 3L * records * 13)
  }

  test("the clock is read per block and not per record") {
    val clock = new CountingClock
    read(clock, new LoadWatch.Running(clock))
    assert(clock.reads > 0 && clock.reads <= 50, s"${clock.reads} reads for ${3 * records} records")
  }

  test("the clock is not read where nothing is loaded") {
    val clock = new CountingClock
    read(clock, LoadWatch.Off)
    assert(clock.reads == 0)
  }
}
