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

  test("frames are kept in their order up to the bound, each once") {
    val held = new HeldFrames(3, new FrameBudget(1000).room(100))
    val frames = Seq(frame(0, 1, 40), frame(1, 2, 40), frame(0, 3, 20))
    assert(frames.forall(held.offer))
    assert(held.offer(frames.head))
    assert(!held.offer(frame(2, 4, 1)))
    assert(held.close() == frames)
  }

  test("after the close nothing is kept, also not what was before") {
    val held = new HeldFrames(3, new FrameBudget(1000).room(100))
    val one = frame(0, 1, 40)
    assert(held.offer(one))
    held.close()
    assert(!held.offer(one))
    assert(held.close().isEmpty)
  }

  /**
   * It was not: an attempt that opened a channel just then was told a decision without its rows,
   * and failed as if its input differed.
   */
  test("what is being written is found until it is durable") {
    val held = new HeldFrames(3, new FrameBudget(1000).room(100))
    val one = frame(0, 1, 40)
    assert(held.offer(one))
    held.forget()
    assert(held.close() == Seq(one) && held.find(1, one.name).exists(_ eq one.bytes))
    held.forget()
    assert(held.find(1, one.name).isEmpty)
  }
}
