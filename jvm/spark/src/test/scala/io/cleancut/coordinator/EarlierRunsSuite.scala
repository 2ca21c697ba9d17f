package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.LedgerFrames._
import io.cleancut.coordinator.state.EarlierRuns
import io.cleancut.format.{FrameKind, PlacedFrame, SegmentIdentity}

class EarlierRunsSuite extends AnyFunSuite {

  private def segment(
      run: String,
      generation: Long,
      frames: PlacedFrame*
  ): (SegmentIdentity, Seq[PlacedFrame]) =
    SegmentIdentity(0L, "driver", run, generation) -> frames

  private def close(
      segments: (SegmentIdentity, Seq[PlacedFrame])*
  ): Either[Set[StoreId], Map[StoreId, StateVersion]] =
    new EarlierRuns(0L, None, segments, current = "now")
      .close()
      .map(_.map(s => s.store -> s.version).toMap)

  test("the latest run with frames of all stores counts, with all its frames") {
    val one = segment("one", 1, frame(Left, 1, 1), frame(Other, 1, 2))
    val two = segment("two", 2, frame(Left, 1, 3), frame(Other, 1, 4))
    val three = segment("three", 3, frame(Left, 1, 5))
    val versions = close(three, one, two)
    assert(versions == scala.Right(Map(Left -> version(1, 3), Other -> version(1, 4))))
    assert(close(three, one).map(_.values.toSet) == scala.Right(Set(version(1, 1), version(1, 2))))
    assert(close(three) == scala.Right(Map(Left -> version(1, 5))))
  }

  test("an epoch of which no run has all frames is incomplete") {
    val one = segment("one", 1, frame(Left, 1, 1))
    val two = segment("two", 2, frame(Other, 1, 2))
    assert(close(one, two) == scala.Left(Set(Left)))
    assert(close() == scala.Right(Map.empty))
  }

  test("an attempt that wrote fewer stores than another attempt at its task does not count") {
    val whole = segment("one", 1, frame(Left, 1, 1), frame(Right, 1, 1))
    val half = segment("one", 1, frame(Left, 1, 2))
    val taken = scala.Right(Map(Left -> version(1, 1), Right -> version(1, 1)))
    assert(close(whole, half) == taken && close(half, whole) == taken)
    // Other runs also show which stores belong to one task.
    val other = segment("zero", 0, frame(Left, 1, 8), frame(Right, 1, 8))
    val torn = segment("one", 1, frame(Right, 1, 3))
    assert(close(half, torn, other).map(_.values.toSet) == scala.Right(Set(version(1, 8))))
  }

  test("two attempts at a task that wrote different stores do not count") {
    val torn = segment("one", 1, frame(Left, 1, 2), frame(Right, 1, 3))
    assert(close(torn) == scala.Left(Set(Left, Right)))
    val whole = segment("zero", 0, frame(Left, 1, 8), frame(Right, 1, 8))
    assert(close(torn, whole).map(_.values.toSet) == scala.Right(Set(version(1, 8))))
  }

  test("the tasks of the current run show which stores belong to one task") {
    val half = segment("one", 1, frame(Left, 1, 2))
    val whole = segment("zero", 0, frame(Left, 1, 8), frame(Right, 1, 8))
    val withTask = new EarlierRuns(0L, None, Seq(half, whole), "now", Seq(Set(Left, Right)))
    assert(withTask.close().map(_.map(_.version).toSet) == scala.Right(Set(version(1, 8))))
    val withoutFrames = new EarlierRuns(0L, None, Nil, "now", Seq(Set(Left, Right), Set(Other)))
    assert(withoutFrames.close() == scala.Left(Set(Left, Right, Other)))
  }

  test("frames of the current run and of maintenance do not count as frames of an earlier run") {
    val now = segment("now", 9, frame(Left, 1, 1), frame(Other, 1, 2))
    assert(close(now) == scala.Left(Set(Left, Other)))
    val one = segment("one", 1, frame(Left, 1, 3), base(Left, 1, 3))
    assert(close(one) == scala.Right(Map(Left -> version(1, 3))))
  }

  test("frames of an operation that was refused or killed do not count") {
    // One attempt writes bases of all stores.
    def ofOperation(store: StoreId) = frame(store, 1, 0, FrameKind.Base)
    val operation = segment("operation", 2, ofOperation(Left), ofOperation(Other))
    val one = segment("one", 1, frame(Left, 1, 1), frame(Other, 1, 2))
    val three = segment("three", 3, frame(Left, 1, 3), frame(Other, 1, 4))
    assert(
      close(operation, three).map(_.values.toSet) == scala.Right(Set(version(1, 3), version(1, 4)))
    )
    assert(
      close(one, operation).map(_.values.toSet) == scala.Right(Set(version(1, 1), version(1, 2)))
    )
    assert(close(operation) == scala.Right(Map.empty))
  }
}
