package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.coordinator.state.FrameBudget
import io.cleancut.cutstore.{CutArchive, SegmentPacker}
import io.cleancut.protocol.Ack
import io.cleancut.testkit.Patience
import io.cleancut.format.SegmentIdentity
import io.cleancut.coordinator.SingleRegistrations._

/** The limit of the frames that all queries of a driver keep in memory. */
class FrameBudgetSuite extends AnyFunSuite with CutsOnDisk {
  private val Frame = frame(part(0), 1, 0).bytes.length

  /** A query whose frames the driver keeps until its sink seals the epoch. */
  private class Holding(number: Int, budget: FrameBudget) {
    val run = s"run-$number"
    private val root = storeAt(s"query-$number")
    val cuts = new QueryCoordinator(
      new CutArchive(root, Clock.System),
      new Logs(None, 100),
      "host",
      CutsRuntime.onThreads(root, Clock.System, budget)
    )
    private val frames = Seq.tabulate(4)(p => frame(part(p), 1, p.toLong))
    cuts.begin(run)
    cuts.hold(run, 0)
    frames.foreach(f => cuts.open(run, f.attempt, f.name.store, 0))

    /**
     * Submits all frames; returns the number that the driver has kept. Executors write the others.
     */
    def commitTasks(): Int = frames.count { frame =>
      val answer = cuts.submit(run, frame)
      if (answer.isEmpty) {
        val written = SegmentPacker.writeSegment(root, "1", Clock.System) _
        report(cuts, run, written(SegmentIdentity(0, "1", run, 1), Seq(frame)).head)
      } else assert(answer.get.get(Patience.Seconds, TimeUnit.SECONDS) == Ack.Accepted)
      answer.isDefined
    }

    def finish(): Unit = {
      cuts.seal(run, 0)
      cuts.commit(run, 0, "v1\n{}")
      ()
    }
  }

  test("fifty queries share one budget, and no query fails because it is exhausted") {
    val budget = new FrameBudget(Frame * 10L)
    val queries = Seq.tabulate(50)(new Holding(_, budget))
    val taken = queries.map { query =>
      val count = query.commitTasks()
      assert(budget.usedBytes <= Frame * 10L)
      count
    }
    assert(taken.take(2) == Seq(4, 4) && taken.drop(3).forall(_ == 0), taken)
    queries.foreach(_.finish())
    assert(queries.forall(_.cuts.status.committed.contains(0L)) && budget.usedBytes == 0)
  }

  test("bytes that a query releases are available to another query") {
    val budget = new FrameBudget(Frame * 4L)
    val (one, other) = (new Holding(0, budget), new Holding(1, budget))
    assert(one.commitTasks() == 4)
    one.finish()
    assert(other.commitTasks() == 4)
  }

  test("a query that ends during an epoch releases all its frames") {
    val budget = new FrameBudget(Frame * 4L)
    val one = new Holding(0, budget)
    assert(one.commitTasks() == 4 && budget.usedBytes == Frame * 4L)
    one.cuts.close()
    assert(budget.usedBytes == 0)
    val late = one.cuts.submit(one.run, frame(part(9), 1, 9))
    assert(late.forall(_.isCompletedExceptionally) && budget.usedBytes == 0)
  }

  test("a room has a limit within the budget, and frames that must be written have none") {
    val budget = new FrameBudget(100)
    val room = budget.room(60)
    assert(room.tryTake(60) && !room.tryTake(1) && !budget.room(60).tryTake(50))
    room.take(50)
    assert(budget.usedBytes == 110)
    room.close()
    room.give(10)
    assert(budget.usedBytes == 0 && !room.tryTake(1))
  }
}
