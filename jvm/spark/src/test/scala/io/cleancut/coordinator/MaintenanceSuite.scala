package io.cleancut.coordinator

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.history.UsualTimes

class MaintenanceSuite extends AnyFunSuite {
  import Maintenance.{Failures, MostPutOff}

  private var pace = Pace.Free
  private val maintenance = new Maintenance("/q", () => pace)

  private def fails(what: String) =
    assert(maintenance.run(what)(throw new IllegalStateException(s"no $what")).isEmpty)

  private def failure: Option[CleancutException] =
    try {
      maintenance.check()
      None
    } catch { case e: CleancutException => Some(e) }

  test("failures are reported, and fail a query only if it has a limit for them") {
    for (_ <- 0 until 100) fails("sweep")
    assert(failure.isEmpty)
    val failures = maintenance.status.inRow
    assert(failures == Map("sweep" -> Failures(100, "java.lang.IllegalStateException: no sweep")))
    maintenance.startRun()
    assert(maintenance.status.inRow.isEmpty)
  }

  test("a query fails after more consecutive failures than it tolerates") {
    pace = Pace.Free.copy(tolerableFailures = Some(2))
    fails("sweep")
    fails("sweep")
    // Successful runs of another job do not count.
    assert(maintenance.run("writing of pages")(7).contains(7) && failure.isEmpty)
    fails("sweep")
    val error = failure.get
    assert(error.getErrorId == "CLEANCUT_MAINTENANCE_FAILED")
    for (fact <- Seq("sweep of /q", "3 times", "the limit is 2", "no sweep"))
      assert(error.getMessage.contains(fact))
    pace = Pace.Free
    assert(failure.isEmpty, "the changed limit takes effect at once")
    pace = Pace.Free.copy(tolerableFailures = Some(0))
    assert(maintenance.run("sweep")(()).isDefined && failure.isEmpty, "a success resets the count")
  }

  test("with autopause it waits for late epochs, and not for ever") {
    assert(!maintenance.waits(isLate = true))
    pace = Pace.Free.copy(autopause = true)
    assert(!maintenance.waits(isLate = false))
    assert(maintenance.waits(isLate = true) && maintenance.waits(isLate = true))
    assert(maintenance.status.putOff == 2)
    assert(!maintenance.waits(isLate = false) && maintenance.status.putOff == 0)
    val all = (0 until 3 * (MostPutOff + 1)).map(_ => maintenance.waits(isLate = true))
    assert(all.count(identity) == 3 * MostPutOff)
    assert(all.sliding(MostPutOff + 1).forall(_.contains(false)))
  }

  test("an epoch is late if it takes twice the median and 200 ms more") {
    val times = new UsualTimes
    assert(!times.took(Some(90000)), "the first epoch of a run has no median")
    for (_ <- 0 until 5) assert(!times.took(Some(100)))
    assert(!times.took(Some(299)) && times.took(Some(300)) && !times.took(None))
    // A duration that persists becomes the median.
    assert((0 until 60).map(_ => times.took(Some(1000))).lastIndexOf(true) < 30)
  }
}
