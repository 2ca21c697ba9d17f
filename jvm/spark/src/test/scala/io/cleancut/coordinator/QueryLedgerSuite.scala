package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.LedgerFrames._
import io.cleancut.coordinator.state.{Opened, QueryLedger}
import io.cleancut.format.{FrameKind, StoreCut}
import io.cleancut.format.cut.{Cut, LateBase}
import io.cleancut.protocol.{Ack, BaseLedger, Refusal}

class QueryLedgerSuite extends AnyFunSuite {
  private val Margin = 3L

  /** Acknowledges the frame of one task for the next epoch, and commits the epoch. */
  private def commit(query: QueryLedger, attempt: Long = 1L): Cut = {
    val epoch = query.lastCommitted + 1
    assert(query.open(attempt, Left, epoch).isRight)
    assert(query.ack(frame(Left, epoch + 1, attempt)) == Ack.Accepted)
    val stores = query.close(epoch, None).fold(missing => fail(s"missing $missing"), identity)
    val done = cut(epoch, stores: _*)
    query.advance(done)
    done
  }

  private def chain(cut: Cut): Seq[(FrameKind, Long)] =
    cut.of(Left).toSeq.flatMap(_.frames.map { case (kind, version, _) => kind -> version.number })

  private def fresh = new QueryLedger(committed = -1L, cut = None, baseMargin = Margin)

  test("a store is opened only at the version of the next epoch") {
    val query = fresh
    assert(query.open(1L, Left, 1L).isLeft)
    assert(query.open(1L, Left, 0L) == scala.Right(Opened(None, needsBase = false)))
    commit(query, attempt = 1L)
    assert(query.open(2L, Left, 0L).isLeft)
    val next = Opened(Some(version(1, 1).id), needsBase = false)
    assert(query.open(2L, Left, 1L) == scala.Right(next))
    assert(query.accepted(Left, 1L).contains(version(1, 1).id))
    assert(query.accepted(Left, 2L).isEmpty && query.accepted(Other, 1L).isEmpty)
  }

  test("an epoch that is committed or not begun is not open") {
    val query = new QueryLedger(committed = 4L, cut = None, baseMargin = Margin)
    for (epoch <- Seq(4L, 6L))
      assert(query.open(1L, Left, epoch) == scala.Left(Refusal.NotOpen(epoch, 4L)))
  }

  test("a store that is in no cut must write a base") {
    val query = new QueryLedger(committed = 4L, cut = None, baseMargin = Margin)
    assert(query.open(1L, Left, 5L) == scala.Right(Opened(None, needsBase = true)))
    query.ack(frame(Left, 6, 1))
    assert(query.close(5L, None) == scala.Left(Set(Left)))
    assert(query.ack(frame(Left, 6, 1, FrameKind.Base)) == Ack.Accepted)
    val first = cut(5L, query.close(5L, None).toSeq.flatten: _*)
    assert(chain(first) == Seq(FrameKind.Base -> 6L))
    query.advance(first)
    assert(
      query.open(2L, Left, 6L) == scala.Right(Opened(Some(version(6, 1).id), needsBase = false))
    )
  }

  test("after an epoch that another run has committed, stores write bases") {
    val query = fresh
    query.advance(commit(query), isStored = false)
    val opened = Opened(Some(version(1, 1).id), needsBase = true)
    assert(query.open(2L, Left, 1L) == scala.Right(opened))
    query.ack(frame(Left, 2, 2, FrameKind.Base))
    query.ack(frame(Left, 2, 2))
    val next = cut(1L, query.close(1L, None).toSeq.flatten: _*)
    assert(chain(next) == Seq(FrameKind.Base -> 2L))
    query.advance(next)
    assert(query.open(3L, Left, 2L).exists(!_.needsBase))
  }

  test("a report for an epoch that is closed or not begun is unknown") {
    val query = fresh
    commit(query)
    assert(query.ack(frame(Left, 1, 9)).isInstanceOf[Ack.Unknown])
    assert(query.ack(frame(Left, 3, 9)).isInstanceOf[Ack.Unknown])
    assert(query.ack(base(Left, 3, 9)).isInstanceOf[Ack.Unknown])
    assertThrows[IllegalArgumentException](query.close(0L, None))
  }

  test("a base replaces earlier frames from the next cut on") {
    val query = fresh
    commit(query)
    commit(query)
    assert(query.ack(base(Left, 2, 1)) == Ack.Accepted)
    assert(query.ack(base(Left, 2, 1)) == Ack.Duplicate)
    assert(query.ack(base(Left, 1, 1)).isInstanceOf[Ack.Discarded])
    assert(chain(commit(query)) == Seq(FrameKind.Base -> 2L, FrameKind.Delta -> 3L))
    assert(chain(commit(query)).map(_._2) == Seq(2L, 3L, 4L))
  }

  test("a base of a version that is not committed is not adopted") {
    val query = fresh
    commit(query, attempt = 1L)
    assert(query.ack(base(Left, 1, 2)) == Ack.Accepted)
    assert(chain(commit(query)) == Seq(FrameKind.Delta -> 1L, FrameKind.Delta -> 2L))
  }

  test("a base of maintenance does not count as an attempt at the open epoch") {
    // Earlier, it hid all attempts of that epoch.
    val query = fresh
    for (store <- Seq(Left, Right)) query.open(1L, store, 0L)
    query.ack(frame(Left, 1, 2))
    query.fail(2L)
    for (store <- Seq(Left, Right)) query.ack(frame(store, 1, 1))
    assert(query.ack(base(Left, 1, 2)) == Ack.Accepted)
    val closed = query.close(0L, None).toSeq.flatten
    assert(closed.map(_.frames) == Seq(Left, Right).map(store => Seq(delta(store, 1, 1))))
    assert(query.ack(base(Right, 1, 1)) == Ack.Accepted)
    val withBase = query.close(0L, None).toSeq.flatten.map(_.frames.map(_._1))
    assert(withBase == Seq(Seq(FrameKind.Delta), Seq(FrameKind.Base)))
  }

  test("a base that is later than the margin is discarded before or after its report") {
    val query = fresh
    (0 until 5).foreach(_ => commit(query))
    // The next cut is of epoch 5, so garbage collection keeps segments from epoch 2 on.
    assert(query.ack(base(Left, 2, 1)).isInstanceOf[Ack.Discarded])
    assert(query.ack(base(Left, 3, 1)) == Ack.Accepted)
    for (epoch <- 5L to 7L)
      query.advance(cut(epoch, StoreCut(Left, (1L to epoch + 1).map(delta(Left, _, 1)))))
    assert(chain(commit(query)).forall(_._1 == FrameKind.Delta))
  }

  /** Commits this many epochs with cuts that list their late bases; returns the last cut. */
  private def listed(query: QueryLedger, times: Int): Cut = Iterator
    .continually {
      val epoch = query.lastCommitted + 1
      assert(query.open(1L, Left, epoch).isRight)
      assert(query.ack(frame(Left, epoch + 1, 1L)) == Ack.Accepted)
      val stores = query.close(epoch, None).fold(missing => fail(s"missing $missing"), identity)
      val done = cut(epoch, stores: _*).copy(late = query.late(stores))
      query.advance(done)
      done
    }
    .take(times)
    .foldLeft(cut(0L))((_, next) => next)

  test("a base whose upload lasts longer than the margin is adopted if it was announced") {
    // Earlier, no late base was adopted: a store with slow uploads never had one, and its chain
    // grew without limit.
    val query = fresh
    listed(query, times = 2)
    val late = base(Left, 2, 1)
    assert(query.announce(late.place.segment, 2L, nowNs = 0L).isRight)
    listed(query, times = 20)
    assert(query.ack(late) == Ack.Accepted)
    val adopted = listed(query, times = 1)
    assert(chain(adopted).take(2) == Seq(FrameKind.Base -> 2L, FrameKind.Delta -> 3L))
    assert(adopted.late == Seq(LateBase(late.place.segment, since = 22L)))
    assert(query.ack(late) == Ack.Duplicate)
  }

  test("a late base is kept until no cut from before its adoption is retained") {
    val query = fresh
    listed(query, times = 2)
    val late = base(Left, 2, 1)
    val segment = late.place.segment
    query.announce(segment, 2L, nowNs = 0L)
    listed(query, times = 20)
    assert(query.retainedSegments(oldest = 15L, nowNs = 0L) == Set(segment))
    query.ack(late)
    assert(query.retainedSegments(oldest = 15L, nowNs = 0L) == Set(segment))
    listed(query, times = 1)
    assert(query.retainedSegments(oldest = 21L, nowNs = 0L) == Set(segment))
    query.bases.swept(21L)
    // Another base replaces it, and cuts that reference the late base are still retained.
    assert(query.ack(base(Left, 23, 1)) == Ack.Accepted)
    val after = listed(query, times = 5)
    assert(chain(after).head == FrameKind.Base -> 23L)
    assert(query.retainedSegments(oldest = 21L, nowNs = 0L) == Set(segment))
    val restarted = new QueryLedger(after.epoch, Some(after), Margin)
    assert(restarted.retainedSegments(oldest = 21L, nowNs = 0L) == Set(segment))
    assert(query.retainedSegments(oldest = 22L, nowNs = 0L).isEmpty)
    query.bases.swept(22L)
    assert(listed(query, times = 1).late.isEmpty)
  }

  test("an announcement that is not renewed expires, and its base is discarded") {
    val query = fresh
    listed(query, times = 2)
    val (renewed, forgotten) = (base(Left, 2, 1), base(Left, 2, 2))
    for (base <- Seq(renewed, forgotten)) query.announce(base.place.segment, 2L, nowNs = 0L)
    listed(query, times = 10)
    val later = BaseLedger.PatienceNs
    assert(query.announce(renewed.place.segment, 2L, nowNs = later - 1).isRight)
    assert(query.retainedSegments(oldest = 5L, nowNs = later) == Set(renewed.place.segment))
    assert(query.ack(forgotten).isInstanceOf[Ack.Discarded])
    assert(query.ack(renewed) == Ack.Accepted)
  }

  test("a base whose epoch garbage collection may have reached cannot be announced") {
    val query = fresh
    listed(query, times = 10)
    assert(query.announce("segment", 7L, nowNs = 0L).isLeft)
    assert(query.announce("segment", 8L, nowNs = 0L).isRight)
  }

  test("after a failed attempt the next attempt counts") {
    val query = fresh
    query.open(1L, Left, 0L)
    query.ack(frame(Left, 1, 1))
    query.fail(1L)
    assert(commit(query, attempt = 2L).of(Left).exists(_.version == version(1, 2)))
  }
}
