package io.cleancut.coordinator

import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.state.Barrier
import io.cleancut.testkit.Seeded

class BarrierSuite extends AnyFunSuite {
  private val PatienceNs = TimeUnit.SECONDS.toNanos(10)

  test("a request is answered with the overtaken attempts that its executor does not know") {
    val barrier = new Barrier
    barrier.runs(1, "a")
    barrier.runs(2, "a")
    barrier.runs(3, "b")
    val before = barrier.await("a", Set(1L), 0L)
    barrier.overtake(Seq(1L, 3L))
    barrier.due(1L).foreach(_())
    assert(!before.isDone, "the executor knows attempt 1, and does not run attempt 3")
    barrier.overtake(Seq(2L))
    barrier.due(1L).foreach(_())
    assert(before.get == Set(2L))
    val after = barrier.await("b", Set.empty, 2L)
    barrier.due(2L).foreach(_())
    assert(after.get == Set(3L))
    assert(!barrier.isAwaited)
  }

  test("attempts of earlier epochs are not reported") {
    val barrier = new Barrier
    barrier.runs(1, "a")
    val request = barrier.await("a", Set.empty, 0L)
    barrier.overtake(Seq(1L))
    barrier.clear()
    barrier.due(PatienceNs - 1).foreach(_())
    assert(!request.isDone)
    barrier.due(PatienceNs).foreach(_())
    assert(request.get == Set.empty)
  }

  test("randomized requests are answered as by a scan of all attempts") {
    for (seed <- 0 until 300) withClue(s"seed $seed: ")(run(Seeded.random(seed.toLong)))
  }

  private def run(random: Random): Unit = {
    val barrier = new Barrier
    val executorOf = mutable.Map.empty[Long, String]
    val overtaken = mutable.Set.empty[Long]
    // Executor, known attempts, deadline, answer.
    var open = Vector.empty[(String, Set[Long], Long, CompletableFuture[Set[Long]])]
    var nowNs = 0L
    def executor() = s"executor-${random.nextInt(4)}"
    def some(attempts: Iterable[Long]) = attempts.filter(_ => random.nextInt(3) == 0).toSet

    for (step <- 0 until 150) {
      nowNs += random.nextInt(2000) * 1000000L
      random.nextInt(20) match {
        case n if n < 6 =>
          executorOf(step.toLong) = executor()
          barrier.runs(step.toLong, executorOf(step.toLong))
        case n if n < 9 =>
          val attempts = some(executorOf.keys).diff(overtaken)
          overtaken ++= attempts
          barrier.overtake(attempts)
        case n if n < 14 =>
          val (name, known) = (executor(), some(executorOf.keys))
          open :+= ((name, known, nowNs + PatienceNs, barrier.await(name, known, nowNs)))
        case 14 =>
          executorOf.clear()
          overtaken.clear()
          barrier.clear()
        case _ =>
          barrier.due(nowNs).foreach(_())
          val (answered, waiting) = open.partition { case (name, known, deadlineNs, _) =>
            nowNs >= deadlineNs || overtaken.exists(a => executorOf(a) == name && !known(a))
          }
          for ((name, known, _, answer) <- answered) {
            val expected = overtaken.filter(a => executorOf(a) == name && !known(a))
            assert(answer.isDone && answer.get == expected, s"step $step")
          }
          for ((_, _, _, answer) <- waiting) assert(!answer.isDone, s"step $step")
          open = waiting
      }
    }
  }
}
