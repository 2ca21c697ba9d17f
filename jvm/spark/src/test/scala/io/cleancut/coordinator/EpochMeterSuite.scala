package io.cleancut.coordinator

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.EpochMeter
import io.cleancut.cutstore.usage.{Place, Sender, Usage, UsageBook}
import io.cleancut.format.cut.{SealedFrame, StoreTime}
import io.cleancut.objectstore.{KindCounts, RequestCounts, RequestKind}
import io.cleancut.coordinator.LedgerFrames._
import io.cleancut.history.{EpochPhase, TriggerTimes}

class EpochMeterSuite extends AnyFunSuite {
  private def ns(ms: Long): Long = MILLISECONDS.toNanos(ms)

  private def puts(driver: Long, executors: Long): UsageBook.Shares = {
    def of(count: Long) = {
      val kinds = RequestCounts.Zero.byKind.updated(RequestKind.Put, KindCounts(count, 0, 0))
      Usage.Zero.copy(requests = RequestCounts.Zero.copy(byKind = kinds))
    }
    UsageBook.Shares(of(driver), of(executors), executorCount = 1)
  }

  private def sender(executor: String) = Sender(executor, s"host-$executor", Usage.Zero)

  private def gate(start: Long, ends: Long*): Seq[(String, Long)] =
    Seq("collectMs", "ownerMs", "offsetsMs").zip(ends.map(end => ns(start + end)))

  test("an epoch lasts from the first open of a store until its cut, and the commit has parts") {
    val meter = new EpochMeter(puts(0, 0))
    meter.opened(1L, Left, ns(100))
    meter.opened(2L, Other, ns(50))
    meter.opened(1L, Right, ns(300))
    val timings = meter.timings(ns(1000), gate(1000, 40, 70, 75))
    assert(
      timings == Map(
        "epochMs" -> 975L,
        "gateMs" -> 75L,
        "stateMs" -> 0L,
        "sinkMs" -> 900L,
        "collectMs" -> 40L,
        "ownerMs" -> 30L,
        "offsetsMs" -> 5L
      )
    )
  }

  test("an epoch lasts from the start of its trigger, and its phases follow each other") {
    val meter = new EpochMeter(puts(0, 0))
    val durations =
      Seq("latestOffset" -> 200L, "getBatch" -> 5L, "walCommit" -> 40L, "queryPlanning" -> 60L)
    val trigger = TriggerTimes(24000, durations.toMap + ("addBatch" -> 23600L))
    val commit = 100_000L
    meter.opened(1L, Left, ns(commit - 900))
    meter.accepted(1L, Left, ns(commit - 300))
    meter.recordSeal(ns(70))
    val timings = meter.timings(ns(commit), gate(commit, 40, 70, 75), Some(trigger))
    val expected = Map(
      "epochMs" -> 24075L,
      "sourceMs" -> 205L,
      "planMs" -> 100L,
      "mapMs" -> 22700L,
      "stateMs" -> 600L,
      "sinkMs" -> 230L,
      "sealMs" -> 70L,
      "gateMs" -> 75L
    )
    assert(expected.toSet.subsetOf(timings.toSet), timings)
    assert(EpochPhase.Other.durationMs(timings) == 95, "Spark does not measure it")
    assert(EpochPhase.All.map(_.durationMs(timings)).sum == timings("epochMs"))
    meter.advance(puts(1, 1), ns(17))
    val next = meter.timings(ns(commit), gate(commit, 1, 2, 3), Some(trigger))
    assert(!next.contains("sealMs") && !next.contains("mapMs"))
    assert(next("sinkMs") == 23600 && next("epochMs") == 24003)
  }

  test("an epoch whose tasks run in the commit lasts as long as the commit") {
    val meter = new EpochMeter(puts(0, 0))
    meter.opened(1L, Left, ns(1020))
    val timings = meter.timings(ns(1000), gate(1000, 40, 70, 75))
    assert(timings("gateMs") == 75L)
    assert(timings("epochMs") == 75L)
  }

  test("an epoch for which no task has opened a store has no duration") {
    val timings = new EpochMeter(puts(0, 0)).timings(ns(1000), gate(1000, 1, 2, 3))
    assert(!timings.contains("epochMs") && timings("gateMs") == 3L)
  }

  test("a cut has the write duration of the previous cut") {
    val meter = new EpochMeter(puts(0, 0))
    assert(!meter.timings(0L, gate(0, 1, 2, 3)).contains("previousCutMs"))
    meter.opened(1L, Left, 0L)
    meter.advance(puts(1, 1), ns(17))
    val timings = meter.timings(ns(90), gate(90, 1, 2, 3))
    assert(timings("previousCutMs") == 17L && !timings.contains("epochMs"))
  }

  test("each request counts for exactly one epoch") {
    val meter = new EpochMeter(begun = puts(10, 100))
    val used = Seq(puts(13, 100), puts(13, 104), puts(20, 111))
    val epochs = used.map { now =>
      val costs = meter.costs(now)
      meter.advance(now, 0L)
      Seq(costs.driver, costs.executors).map(_.requests.get("put").fold(0L)(_.requests))
    }
    assert(epochs == Seq(Seq(3L, 0L), Seq(0L, 4L), Seq(7L, 7L)))
  }

  test("requests of a cut that was not written count for the next cut") {
    val meter = new EpochMeter(puts(0, 0))
    meter.costs(puts(3, 0))
    assert(meter.costs(puts(5, 0)).driver.requests("put").requests == 5)
  }

  test("only the slowest stores are listed, with their executors") {
    val meter = new EpochMeter(puts(0, 0))
    val stores = (0 until 100).map(p => StoreId(0L, p, "default"))
    for ((store, p) <- stores.zipWithIndex) {
      meter.opened(p.toLong, store, ns(10))
      meter.recordSender(p.toLong, sender(s"${p % 3}"))
      meter.accepted(p.toLong, store, ns(10L + (p * 37) % 100))
    }
    val slowest = meter.costs(puts(0, 0)).slowest
    assert(slowest.map(_.ms) == Seq(99L, 98L, 97L, 96L, 95L))
    for (time <- slowest) {
      val executor = s"${time.store.partition % 3}"
      assert(time == StoreTime(time.store, executor, s"host-$executor", time.ms))
      assert((time.store.partition * 37) % 100 == time.ms)
    }
    meter.advance(puts(0, 0), 0L)
    assert(meter.slowest.isEmpty)
  }

  test("the last attempt that opened a store is known with its location until the epoch ends") {
    val meter = new EpochMeter(puts(0, 0))
    assert(meter.lastOpener(Left).isEmpty)
    val place = Some(Place("1", "host-1"))
    meter.openedBy(3L, Left, place)
    meter.openedBy(2L, Left, Some(Place("2", "host-2")))
    meter.openedBy(4L, Right, None)
    assert(meter.lastOpener(Left).contains(3L -> place))
    assert(meter.lastOpener(Right).contains(4L -> None))
    meter.advance(puts(0, 0), 0L)
    assert(meter.lastOpener(Left).isEmpty)
  }

  test("the time of a store ends with its last accepted frame") {
    val meter = new EpochMeter(puts(0, 0))
    meter.opened(1L, Left, ns(10))
    meter.opened(1L, Left, ns(20))
    meter.accepted(1L, Left, ns(30))
    meter.accepted(1L, Left, ns(45))
    assert(meter.slowest == Seq(StoreTime(Left, "", "", 35L)))
  }

  test("bases of maintenance do not count as time of a task") {
    val meter = new EpochMeter(puts(0, 0))
    meter.opened(1L, Left, ns(10))
    meter.recordSender(SealedFrame.Maintenance, sender("1"))
    meter.accepted(SealedFrame.Maintenance, Left, ns(5000))
    assert(meter.slowest.isEmpty)
  }
}
