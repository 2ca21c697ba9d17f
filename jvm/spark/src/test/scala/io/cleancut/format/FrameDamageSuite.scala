package io.cleancut.format

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.OneFamily
import io.cleancut.engine.memory.Bytes
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{Draws, Frames}
import io.cleancut.engine.OneFamily._
import io.cleancut.format.frame.FrameTrailer

/** Damage of single bytes of a frame with several blocks. */
class FrameDamageSuite extends AnyFunSuite {
  private val frame = {
    val log = OneFamily.newLog()
    for (i <- 0 until 3000) log.put(row(i), Bytes.of(Array.fill(100)((i * 7 + i % 13).toByte)))
    val written = Frames.write(Frames.base(Frames.version(5), keys = 3000)) { writer =>
      log.seal(Frames.version(5), 1)
      log.writeBase(log.latest, writer)
    }
    log.release()
    written
  }

  test("the undamaged frame is read in several blocks") {
    val trailer = read(frame.bytes)
    assert(trailer.blocks > 2 && trailer.records == 3000 && trailer.keys == 3000)
  }

  test("every flipped bit is detected") {
    // Every byte of both ends, which have the structure, and a sample of the blocks.
    val ends = (0 until 400) ++ (frame.bytes.length - 60 until frame.bytes.length)
    val positions = (ends ++ (400 until frame.bytes.length by 97)).distinct
    // A subset of the bits of each byte, which rotates from byte to byte.
    for (position <- positions; bit <- (0 until Draws.of(8)).map(n => (position + n) % 8)) {
      val damaged = frame.bytes.clone()
      damaged(position) = (damaged(position) ^ (1 << bit)).toByte
      val thrown = withClue(s"bit $bit of byte $position: ") {
        intercept[CleancutException](read(damaged))
      }
      assert(Kinds.contains(thrown.getErrorId))
      assert(thrown.getMessage.contains("memory/"))
    }
  }

  test("every truncation is detected") {
    for (length <- (0 until 500) ++ (500 until frame.bytes.length by 101)) {
      val thrown = intercept[CleancutException](read(frame.bytes.take(length)))
      assert(thrown.getErrorId == "CLEANCUT_FRAME_CORRUPTED")
    }
  }

  test("trailing bytes are detected") {
    val thrown = intercept[CleancutException](read(frame.bytes :+ 0.toByte))
    assert(thrown.getErrorId == "CLEANCUT_FRAME_CORRUPTED")
  }

  test("a frame that is requested under another name is detected") {
    val others = Seq(
      frame.request.copy(store = Frames.Store.copy(partition = 1)),
      frame.request.copy(store = Frames.Store.copy(operator = 1)),
      frame.request.copy(store = Frames.Store.copy(name = "other")),
      frame.request.copy(version = Frames.version(6)),
      frame.request.copy(version = Frames.version(5, attempt = 2)),
      frame.request.copy(kind = FrameKind.Delta)
    )
    for (request <- others) {
      val thrown = intercept[CleancutException](Frames.read(request, frame.bytes)((r, _) => r))
      assert(thrown.getErrorId == "CLEANCUT_FRAME_MISPLACED")
    }
  }

  private val Kinds =
    Set("CLEANCUT_FRAME_CORRUPTED", "CLEANCUT_FORMAT_UNKNOWN", "CLEANCUT_FRAME_MISPLACED")

  private def row(i: Int): Bytes = Bytes.of(s"key-$i".getBytes)

  private def read(bytes: Array[Byte]): FrameTrailer = {
    val log = OneFamily.newLog()
    try Frames.read(frame.request, bytes)((reader, scratch) => log.load(reader, scratch))
    finally log.release()
  }
}
