package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, Executors, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicLong}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, DaemonThreads, ProcessWatch}
import io.cleancut.coordinator.SingleRegistrations._
import io.cleancut.coordinator.state.{Begun, Pipelining}
import io.cleancut.cutstore.Owner
import io.cleancut.format.CutLayout
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectStore}
import io.cleancut.testkit.Patience

/** A run that waits for the run before, which completes its epoch and ends (rules T1 to T3). */
class HandoverSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val Long = TimeUnit.SECONDS.toMillis(Patience.Seconds)

  /** At least the time between two requests for an end marker. */
  private val OnePollMs = 1000L
  private val threads = Executors.newCachedThreadPool(DaemonThreads.named("handover-suite"))

  /** A driver whose query is stopped as Spark does it: the run ends on another thread. */
  private def old(stopped: CompletableFuture[String]): QueryCoordinator =
    driver(runtime = _.copy(stopQuery = run => { stopped.complete(run); () }))

  private def waiting(timeoutMs: Long): QueryCoordinator =
    driver(runtime = _.copy(handoverMs = timeoutMs, clock = new LimitedWaits(timeoutMs)))

  /** A clock that fails a run which waits longer than its time. */
  final private class LimitedWaits(timeoutMs: Long) extends Clock {
    private val waitedMs = new AtomicLong
    override def wallMs(): Long = Clock.System.wallMs()
    override def monotonicNs(): Long = Clock.System.monotonicNs()
    override def randomBytes(count: Int): Array[Byte] = Clock.System.randomBytes(count)
    override def sleep(duration: Long, unit: TimeUnit): Unit = {
      val ms = waitedMs.addAndGet(unit.toMillis(duration))
      assert(ms <= timeoutMs + OnePollMs, "a run waits after its time is over")
      Clock.System.sleep(duration, unit)
    }
  }

  private def begin(next: QueryCoordinator, run: String): CompletableFuture[Begun] =
    CompletableFuture.supplyAsync[Begun](() => next.begin(run), threads)

  private def result[A](future: CompletableFuture[A]): A =
    future.get(Patience.Seconds, TimeUnit.SECONDS)

  private def awaitOwner(generation: Long): Unit = {
    eventually(assert(archive.owners.isTaken(generation)))
    ()
  }

  /** A store that counts the reads of some objects, and requests for their existence. */
  private def counting(names: String, requests: AtomicInteger)(under: ObjectStore): ObjectStore =
    new ForwardingStore(under) {
      override def head(key: ObjectKey): Option[ObjectInfo] = {
        count(key)
        super.head(key)
      }
      override def get(key: ObjectKey): Option[Array[Byte]] = {
        count(key)
        super.get(key)
      }
      private def count(key: ObjectKey): Unit =
        if (key.name.startsWith(names)) { requests.incrementAndGet(); () }
    }

  private def hasTaken(generation: Long) =
    store.head(ObjectKey(CutLayout.takeover(generation))).isDefined

  test("the run before completes its epoch, ends, and the successor continues after it") {
    val stopped = new CompletableFuture[String]
    val first = old(stopped)
    epoch(first, "r1", 0)
    first.hold("r1", 1)
    val second = waiting(Long)
    val begun = begin(second, "r2")
    awaitOwner(2)
    tasks(first, "r1", 1)
    first.seal("r1", 1)
    assert(!stopped.isDone && !hasTaken(2))
    var isLogged = false
    first.enqueue("r1", 1, "v1\n{}")(_ => isLogged = true)
    assert(isLogged && stopped.getNow("") == "r1")
    var isPlanned = false
    intercept[HandedOver](first.plan("r1", 2) { isPlanned = true })
    intercept[HandedOver](first.record("r1") { isPlanned = true })
    assert(!isPlanned && !begun.isDone)
    first.endRun("r1")
    val start = result(begun)
    assert(start.committed == 1L && start.isAlone && hasTaken(2))
    epoch(second, "r2", 2)
    assert(archive.cuts.read(2).exists(_.run.runId == "r2"))
  }

  test("a successor waits until it finds the end of the run before") {
    val first = old(new CompletableFuture[String])
    epoch(first, "r1", 0)
    val polls = new AtomicInteger
    val around = counting(CutLayout.endMarker(1), polls)(_)
    val begun = begin(driver(around = around, runtime = _.copy(handoverMs = Long)), "r2")
    eventually(assert(polls.get > 2 || begun.isDone))
    assert(!begun.isDone && !hasTaken(2))
    first.endRun("r1")
    assert(result(begun).isAlone)
  }

  test("a run that has not ended in time is fenced before its next seal and its next epoch") {
    val stopped = new CompletableFuture[String]
    val first = old(stopped)
    epoch(first, "r1", 0)
    val second = waiting(timeoutMs = 200L)
    val begun = result(begin(second, "r2"))
    assert(begun.committed == 0L && !begun.isAlone && hasTaken(2))
    // The cut is committed for the successor, as in a takeover without a wait.
    val late = errorOf(epoch(first, "r1", 1))
    assert(late.getErrorId == "CLEANCUT_FENCED" && late.getMessage.contains("r2 on host"))
    assert(!stopped.isDone)
  }

  test("an owner after the waiting one ends the run, and the waiting one") {
    val stopped = new CompletableFuture[String]
    val first = old(stopped)
    epoch(first, "r1", 0)
    val begun = begin(waiting(Long), "r2")
    awaitOwner(2)
    val third = driver()
    assert(!third.begin("r3").isAlone)
    assert(errorOf(epoch(first, "r1", 1)).getErrorId == "CLEANCUT_FENCED")
    assert(!stopped.isDone)
    first.endRun("r1")
    val refused = begun.handle[Option[Throwable]]((_, e) => Option(e))
    assert(result(refused).exists(_.toString.contains("FENCED")))
  }

  test("an idle run ends when a successor waits for it") {
    val stopped = new CompletableFuture[String]
    val first = old(stopped)
    epoch(first, "r1", 0)
    first.endIfAwaited("r1")
    assert(!stopped.isDone)
    val begun = begin(waiting(Long), "r2")
    awaitOwner(2)
    first.endIfAwaited("another run")
    assert(!stopped.isDone)
    first.endIfAwaited("r1")
    assert(stopped.getNow("") == "r1")
    first.endRun("r1")
    assert(result(begun).isAlone)
  }

  test("an idle run ends neither for an owner that does not wait, nor one that has the query") {
    for (timeoutMs <- Seq(0L, 1L)) {
      val stopped = new CompletableFuture[String]
      val first = old(stopped)
      first.begin(s"r1 $timeoutMs")
      result(begin(waiting(timeoutMs), s"r2 $timeoutMs"))
      first.endIfAwaited(s"r1 $timeoutMs")
      assert(!stopped.isDone)
    }
  }

  test("a run that pipelines its cuts writes the cut, and no entry after it") {
    val stopped = new CompletableFuture[String]
    val first = old(stopped)
    for (number <- 0L to 1L) {
      first.hold("r1", number)
      assert(first.open("r1", number, part(0), number).isRight)
      submit(first, "r1", frame(part(0), number + 1, number))
      first.seal("r1", number)
      if (number == 0) first.commit("r1", 0, "v1\n{}")
    }
    val begun = begin(waiting(Long), "r2")
    awaitOwner(2)
    first.pipeline("r1", Pipelining.at(1))
    var isLogged = false
    first.enqueue("r1", 1, "v1\n{}")(_ => isLogged = true)
    intercept[HandedOver](first.awaitWrites("r1"))
    assert(isLogged && stopped.getNow("") == "r1")
    intercept[HandedOver](first.plan("r1", 2)(fail("an epoch was planned")))
    first.endRun("r1")
    val start = result(begun)
    assert(start.committed == 1L && start.isAlone)
  }

  test("a run that has found its successor is stopped before it is refused an entry") {
    val stopped = new CompletableFuture[String]
    val first = old(stopped)
    epoch(first, "r1", 0)
    val begun = begin(waiting(Long), "r2")
    awaitOwner(2)
    first.hold("r1", 1)
    tasks(first, "r1", 1)
    first.checkOwner("r1")
    assert(!stopped.isDone)
    intercept[HandedOver](first.plan("r1", 2)(fail("an epoch was planned")))
    assert(stopped.getNow("") == "r1")
    first.endRun("r1")
    assert(result(begun).committed == 0L)
  }

  test("an ownership check is one request, and three if it finds a successor") {
    val requests = new AtomicInteger
    val cuts = driver(around = counting(CutLayout.Owners, requests))
    def requestsOf(action: => Unit): Int = {
      requests.set(0)
      action
      requests.get
    }
    epoch(cuts, "r1", 0)
    assert(requestsOf(cuts.checkOwner("r1")) == 1)
    assert(requestsOf(epoch(cuts, "r1", 1)) == 1)
    val begun = begin(waiting(Long), "r2")
    awaitOwner(2)
    // The owner object; whether it has taken the query, and whether there is a third run.
    assert(requestsOf(cuts.checkOwner("r1")) == 3)
    assert(requestsOf(cuts.checkOwner("r1")) == 2)
    // The checkpoint is known to exist, so there is no request before the end marker.
    assert(requestsOf(cuts.endRun("r1")) == 0)
    assert(result(begun).isAlone)
  }

  test("a successor leaves overdue snapshots to maintenance, and another run does not") {
    val first = old(new CompletableFuture[String])
    epoch(first, "r1", 0)
    val second = waiting(Long)
    val begun = begin(second, "r2")
    awaitOwner(2)
    first.endRun("r1")
    assert(result(begun).isSuccessor)
    assert(second.open("r2", 1, part(0), 1).exists(_.mayDeferBase))
    second.endRun("r2")
    val third = waiting(Long)
    assert(!third.begin("r3").isSuccessor)
    assert(third.open("r3", 2, part(0), 1).exists(!_.mayDeferBase))
  }

  test("a run does not wait for a driver that has died, but for an end marker that it has left") {
    for (isEnded <- Seq(false, true)) {
      val (before, after) = (s"before $isEnded", s"after $isEnded")
      val first = driver(runtime = _.copy(address = Some(s"host:$isEnded")))
      val committed = first.begin(before).committed + 1
      epoch(first, before, committed)
      // The marker is written between the first request for it and the observation.
      def watch(owner: Owner): ProcessWatch = { (_: Long) =>
        assert(owner.runId == before && owner.address.contains(s"host:$isEnded"))
        if (isEnded) first.endRun(before)
        true
      }
      val next = driver(runtime = _.copy(handoverMs = Long, watch = watch))
      val begun = next.begin(after)
      assert(begun.committed == committed && begun.isAlone == isEnded)
      assert(hasTaken(archive.owners.running().get.generation))
      epoch(next, after, committed + 1)
      next.endRun(after)
    }
  }

  test("a run that has waited in vain is a successor, next to one that may be active") {
    epoch(old(new CompletableFuture[String]), "r1", 0)
    val begun = waiting(timeoutMs = 1L).begin("r2")
    assert(begun.isSuccessor && !begun.isAlone)
  }

  test("no run waits after one that has ended, and in a new query") {
    val first = waiting(Long)
    assert(first.begin("r1").isAlone)
    epoch(first, "r1", 0)
    first.endRun("r1")
    val second = waiting(Long)
    assert(second.begin("r2").isAlone)
    assert(archive.owners.find(2).exists(_.waitsFor.isEmpty) && !hasTaken(2))
  }
}
