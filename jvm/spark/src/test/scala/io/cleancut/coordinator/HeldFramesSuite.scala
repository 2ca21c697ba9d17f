package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.coordinator.state.{FrameBudget, HeldFrames}
import io.cleancut.format.{FrameKind, FrameName}
import io.cleancut.format.cut.SealedFrame

class HeldFramesSuite extends AnyFunSuite {
  private val version = StateVersion(4, StateVersion.newId(Clock.System))

  private def frame(partition: Int, attempt: Long, bytes: Int): SealedFrame = {
    val name = FrameName(StoreId(0, partition, "default"), version, FrameKind.Delta)
    SealedFrame(name, attempt, new Array[Byte](bytes))
  }

  test("frames are kept in their order up to the limit, each once") {
    val held = new HeldFrames(3, new FrameBudget(1000).room(100))
    val frames = Seq(frame(0, 1, 40), frame(1, 2, 40), frame(0, 3, 20))
    assert(frames.forall(held.offer))
    assert(held.offer(frames.head))
    assert(!held.offer(frame(2, 4, 1)))
    assert(held.close() == frames)
  }

  test("after the close neither new nor earlier frames are kept") {
    val held = new HeldFrames(3, new FrameBudget(1000).room(100))
    val one = frame(0, 1, 40)
    assert(held.offer(one))
    held.close()
    assert(!held.offer(one))
    assert(held.close().isEmpty)
  }

  /**
   * Earlier, an attempt that opened a channel at this moment received a decision without its rows,
   * and failed as if its input differed.
   */
  test("a frame that is being written is found until it is durable") {
    val held = new HeldFrames(3, new FrameBudget(1000).room(100))
    val one = frame(0, 1, 40)
    assert(held.offer(one))
    held.forget()
    assert(held.close() == Seq(one) && held.find(1, one.name).exists(_ eq one.bytes))
    held.forget()
    assert(held.find(1, one.name).isEmpty)
  }
}
