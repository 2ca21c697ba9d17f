package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.history.UsualTimes

class MaintenanceSuite extends AnyFunSuite {
  import Maintenance.{Failures, MostPutOff}

  private var pace = Pace.Free
  private val beside = new Maintenance("/q", () => pace)

  private def fails(what: String) =
    assert(beside.run(what)(throw new IllegalStateException(s"no $what")).isEmpty)

  private def failure: Option[CleancutException] =
    try {
      beside.check()
      None
    } catch { case e: CleancutException => Some(e) }

  test("what fails is told, and fails no query that does not ask for that") {
    for (_ <- 0 until 100) fails("sweep")
    assert(failure.isEmpty)
    val told = beside.status.inRow
    assert(told == Map("sweep" -> Failures(100, "java.lang.IllegalStateException: no sweep")))
    beside.startRun()
    assert(beside.status.inRow.isEmpty)
  }

  test("a query fails with one more failure in a row than it tolerates") {
    pace = Pace.Free.copy(tolerableFailures = Some(2))
    fails("sweep")
    fails("sweep")
    // Others that are done say nothing of it.
    assert(beside.run("writing of pages")(7).contains(7) && failure.isEmpty)
    fails("sweep")
    val found = failure.get
    assert(found.getErrorId == "CLEANCUT_MAINTENANCE_FAILED")
    for (fact <- Seq("sweep of /q", "3 times", "the limit is 2", "no sweep"))
      assert(found.getMessage.contains(fact))
    pace = Pace.Free
    assert(failure.isEmpty, "it holds at once")
    pace = Pace.Free.copy(tolerableFailures = Some(0))
    assert(beside.run("sweep")(()).isDefined && failure.isEmpty, "what is done ends the row")
  }

  test("it waits behind late epochs where that is asked for, and not for ever") {
    assert(!beside.waits(isLate = true))
    pace = Pace.Free.copy(autopause = true)
    assert(!beside.waits(isLate = false))
    assert(beside.waits(isLate = true) && beside.waits(isLate = true))
    assert(beside.status.putOff == 2)
    assert(!beside.waits(isLate = false) && beside.status.putOff == 0)
    val all = (0 until 3 * (MostPutOff + 1)).map(_ => beside.waits(isLate = true))
    assert(all.count(identity) == 3 * MostPutOff)
    assert(all.sliding(MostPutOff + 1).forall(_.contains(false)))
  }

  test("an epoch is late that takes twice the median and 200 ms more") {
    val times = new UsualTimes
    assert(!times.took(Some(90000)), "the first of a run has nothing to be compared with")
    for (_ <- 0 until 5) assert(!times.took(Some(100)))
    assert(!times.took(Some(299)) && times.took(Some(300)) && !times.took(None))
    // What goes on for long becomes usual.
    assert((0 until 60).map(_ => times.took(Some(1000))).lastIndexOf(true) < 30)
  }
}
