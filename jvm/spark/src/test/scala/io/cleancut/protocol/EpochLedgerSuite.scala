package io.cleancut.protocol

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.format.{Channels, FrameKind, PlacedFrame, StoreCut}
import io.cleancut.format.cut.{ChannelReport, Cut, RowsDigest}
import io.cleancut.coordinator.LedgerFrames._

class EpochLedgerSuite extends AnyFunSuite {

  /** The attempt of the last frame of each store. */
  private def attempts(closed: Either[Set[StoreId], Seq[StoreCut]]): Map[StoreId, Long] =
    closed.fold(
      missing => fail(s"missing $missing"),
      _.map(s => s.store -> java.lang.Long.parseLong(s.version.id.takeRight(16), 16)).toMap
    )

  private def ledger(previous: Option[Cut] = None) = new EpochLedger(0L, previous)

  test("an epoch is missing each store of the previous cut until it has a frame") {
    val first = new EpochLedger(0, None)
    assert(!first.lacksOtherThan(Left) && first.mayBeComplete)
    first.open(1, Left)
    first.open(1, Right)
    for (store <- Seq(Left, Right)) first.ack(frame(store, 1, 1))
    val stores = first.close(None).toOption.get
    val epoch = new EpochLedger(1, Some(cut(0, stores: _*)))
    assert(epoch.lacksOtherThan(Left) && !epoch.mayBeComplete)
    epoch.hold(2, frame(Left, 2, 2).name)
    assert(epoch.lacksOtherThan(Left) && !epoch.lacksOtherThan(Right))
    epoch.ack(frame(Right, 2, 2))
    assert(epoch.mayBeComplete)
  }

  test("an attempt counts when it has reported each store that it opened") {
    val epoch = ledger()
    epoch.open(1L, Left)
    epoch.open(1L, Right)
    assert(epoch.ack(frame(Left, 1, 1)) == Ack.Accepted)
    assert(epoch.close(None) == scala.Left(Set(Left, Right)))
    assert(epoch.ack(frame(Right, 1, 1)) == Ack.Accepted)
    assert(attempts(epoch.close(None)) == Map(Left -> 1L, Right -> 1L))
  }

  test("the stores of a task are from one attempt") {
    val epoch = ledger()
    for (attempt <- 1L to 2L; store <- Seq(Left, Right)) epoch.open(attempt, store)
    epoch.ack(frame(Left, 1, 1))
    epoch.ack(frame(Right, 1, 1))
    // The second attempt is later in one store only.
    epoch.ack(frame(Left, 1, 2))
    assert(attempts(epoch.close(None)) == Map(Left -> 1L, Right -> 1L))
    epoch.ack(frame(Right, 1, 2))
    assert(attempts(epoch.close(None)) == Map(Left -> 2L, Right -> 2L))
  }

  test("a failed attempt counts if no other is complete, because its rows may be persisted") {
    val epoch = ledger()
    for (attempt <- 1L to 3L) {
      epoch.open(attempt, Left)
      epoch.open(attempt, Right)
      epoch.ack(frame(Left, 1, attempt))
    }
    epoch.fail(1L)
    assert(epoch.close(None) == scala.Left(Set(Left, Right)), "no attempt has all its stores")
    epoch.ack(frame(Right, 1, 1))
    assert(attempts(epoch.close(None)) == Map(Left -> 1L, Right -> 1L))
    epoch.ack(frame(Right, 1, 2))
    assert(attempts(epoch.close(None)) == Map(Left -> 2L, Right -> 2L))
    epoch.ack(frame(Right, 1, 3))
    epoch.fail(3L)
    assert(attempts(epoch.close(None)) == Map(Left -> 2L, Right -> 2L), "the failed one is later")
    epoch.fail(2L)
    assert(attempts(epoch.close(None)) == Map(Left -> 3L, Right -> 3L))
  }

  test("a repeated report is a duplicate in any segment, and another version is discarded") {
    val epoch = ledger()
    epoch.open(1L, Left)
    assert(epoch.ack(frame(Left, 1, 1)) == Ack.Accepted)
    assert(epoch.ack(frame(Left, 1, 1)) == Ack.Duplicate)
    assert(epoch.ack(frame(Left, 1, 1, segment = "packed twice")) == Ack.Duplicate)
    val other = frame(Left, 1, 7).copy(attempt = 1L)
    assert(epoch.ack(other).isInstanceOf[Ack.Discarded])
    val otherBase = frame(Left, 1, 7, FrameKind.Base).copy(attempt = 1L)
    assert(epoch.ack(otherBase).isInstanceOf[Ack.Discarded])
    assert(attempts(epoch.close(None)) == Map(Left -> 1L))
  }

  test("an attempt that left other in-flight rows is discarded at each report") {
    val epoch = ledger()
    val channel = Left.copy(name = Channels.name(0))
    def attempt(id: Long, deferred: RowsDigest): PlacedFrame = {
      epoch.open(id, Left)
      epoch.channels.open(id, channel, mayDefer = true)
      epoch.channels.report(id, ChannelReport(channel, RowsDigest(2L, 3L), deferred))
      frame(Left, 1, id)
    }
    val (first, second) = (attempt(1L, RowsDigest(1L, 1L)), attempt(2L, RowsDigest(1L, 2L)))
    assert(epoch.ack(first) == Ack.Accepted && epoch.ack(first) == Ack.Duplicate)
    val refusal = epoch.ack(second)
    assert(refusal.isInstanceOf[Ack.Discarded])
    // The response was lost. If this were a duplicate, the task would emit in-flight rows.
    assert(epoch.ack(second) == refusal)
    assert(attempts(epoch.close(None)) == Map(Left -> 1L))
  }

  test("a duplicate does not make an attempt later") {
    val epoch = ledger()
    for (attempt <- 1L to 2L) {
      epoch.open(attempt, Left)
      epoch.ack(frame(Left, 1, attempt))
    }
    epoch.ack(frame(Left, 1, 1))
    assert(attempts(epoch.close(None)) == Map(Left -> 2L))
  }

  test("a base of a commit replaces its delta, in either order") {
    for (kinds <- Seq(FrameKind.Delta, FrameKind.Base).permutations) {
      val before = cut(0, StoreCut(Left, Seq(delta(Left, 1, 1))))
      val epoch = new EpochLedger(1L, Some(before))
      epoch.open(2L, Left)
      kinds.foreach(kind => assert(epoch.ack(frame(Left, 2, 2, kind)) == Ack.Accepted))
      val chain = epoch.close(None).map(_.flatMap(_.frames))
      assert(chain == scala.Right(Seq(entry(frame(Left, 2, 2, FrameKind.Base)))))
    }
  }

  test("a delta extends the chain of the previous cut") {
    val before = cut(0, StoreCut(Left, Seq(delta(Left, 1, 1))))
    val epoch = new EpochLedger(1L, Some(before))
    epoch.open(2L, Left)
    epoch.ack(frame(Left, 2, 2))
    val chain = epoch.close(None).map(_.flatMap(_.frames))
    assert(chain == scala.Right(Seq(delta(Left, 1, 1), delta(Left, 2, 2))))
  }

  test("each store of the previous cut requires a frame") {
    val before =
      cut(0, StoreCut(Left, Seq(delta(Left, 1, 1))), StoreCut(Other, Seq(delta(Other, 1, 1))))
    val epoch = new EpochLedger(1L, Some(before))
    epoch.open(2L, Left)
    epoch.ack(frame(Left, 2, 2))
    assert(epoch.close(None) == scala.Left(Set(Other)))
  }

  test("if Spark names versions, exactly these count") {
    val epoch = ledger()
    for (attempt <- 1L to 2L; store <- Seq(Left, Right)) {
      epoch.open(attempt, store)
      epoch.ack(frame(store, 1, attempt))
    }
    val first = Seq(Left, Right).map(_ => version(1, 1).id).toSet
    assert(attempts(epoch.close(Some(first))) == Map(Left -> 1L, Right -> 1L))
    assert(attempts(epoch.close(None)) == Map(Left -> 2L, Right -> 2L))
    assert(epoch.close(Some(Set(version(1, 9).id))) == scala.Left(Set(Left, Right)))
  }

  test("an attempt without its required base does not hide one that has it") {
    // Earlier, such a delta was chosen as the latest one, and the epoch could not be committed.
    val epoch = new EpochLedger(5L, None)
    for (attempt <- 1L to 2L) epoch.open(attempt, Left)
    epoch.ack(frame(Left, 6, 1))
    epoch.ack(frame(Left, 6, 1, FrameKind.Base))
    epoch.ack(frame(Left, 6, 2))
    assert(attempts(epoch.close(None)) == Map(Left -> 1L))
    epoch.ack(frame(Left, 6, 2, FrameKind.Base))
    assert(attempts(epoch.close(None)) == Map(Left -> 2L))
  }
}
