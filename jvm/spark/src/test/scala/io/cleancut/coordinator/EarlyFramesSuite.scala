package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.coordinator.state.{EarlyFrames, FrameBudget}
import io.cleancut.format.{FrameKind, FrameName}
import io.cleancut.format.cut.SealedFrame

class EarlyFramesSuite extends AnyFunSuite {
  private val version = StateVersion(4, StateVersion.newId(Clock.System))

  private def frame(partition: Int, bytes: Int): SealedFrame = {
    val name = FrameName(StoreId(0, partition, "default"), version, FrameKind.Delta)
    SealedFrame(name, partition.toLong, new Array[Byte](bytes))
  }

  private val budget = new FrameBudget(1000)
  private def frames = new EarlyFrames(budget.room(100), fullBytes = 60)

  test("frames are kept in their order up to the limit, each once") {
    val early = frames
    val all = Seq(frame(0, 40), frame(1, 40), frame(2, 20))
    assert(all.forall(early.offer) && early.offer(all.head))
    val last = frame(3, 1)
    assert(!early.offer(last))
    early.add(last)
    assert(early.take().frames == all :+ last)
  }

  test("frames that are being written count towards the limit until they are durable") {
    val early = frames
    early.offer(frame(0, 70))
    assert(early.isFull)
    val write = early.take()
    assert(!early.isFull && !early.isEmpty && !early.offer(frame(1, 40)))
    early.wrote(write)
    assert(early.isEmpty && early.offer(frame(1, 40)))
  }

  test("a writer waits for the frames that other writers have taken") {
    val early = frames
    early.offer(frame(0, 70))
    val first = early.take()
    early.offer(frame(1, 10))
    val second = early.take()
    second.done.complete(())
    assert(second.frames.size == 1 && !second.all.isDone)
    first.done.complete(())
    assert(second.all.isDone)
  }

  test("the next writer writes the frames of a failed write, and no more frames are kept") {
    val early = frames
    early.offer(frame(0, 10))
    early.failed(early.take())
    assert(!early.offer(frame(1, 10)))
    early.add(frame(1, 10))
    assert(early.take().frames.map(_.name.store.partition) == Seq(0, 1))
  }

  test("the commit receives all frames that are not durable, including those being written") {
    val early = frames
    val before = budget.usedBytes
    early.offer(frame(0, 10))
    val write = early.take()
    early.offer(frame(1, 10))
    assert(early.close().map(_.name.store.partition) == Seq(0, 1) && early.isEmpty)
    early.failed(write)
    early.wrote(write)
    assert(early.isEmpty && budget.usedBytes == before + 20)
    early.forget()
    assert(budget.usedBytes == before)
  }
}
