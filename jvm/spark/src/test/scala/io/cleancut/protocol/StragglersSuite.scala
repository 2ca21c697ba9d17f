package io.cleancut.protocol

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.StoreId
import io.cleancut.conf.CaptureMode
import io.cleancut.format.Channels

class StragglersSuite extends AnyFunSuite {
  private val Operator = 0L
  private val Partitions = 4

  private def ms(time: Long): Long = MILLISECONDS.toNanos(time)

  private def channel(partition: Int, input: Int = 0, operator: Long = Operator) =
    StoreId(operator, partition, Channels.name(input))

  /** Calls for a task that reads one channel. */
  implicit private class OfOneInput(stragglers: Stragglers) {
    def started(attempt: Long, operator: Long, partition: Int, partitions: Int, nowNs: Long): Unit =
      stragglers.started(attempt, channel(partition, operator = operator), partitions, nowNs)

    def arrived(attempt: Long, nowNs: Long): Unit =
      stragglers.arrived(attempt, channel(0), nowNs)
  }

  test("a repeated message after a lost response has no effect") {
    val stragglers = new Stragglers
    // A join of two inputs; each is registered twice.
    for (_ <- 0 until 2; input <- 0 until 2) stragglers.started(0, channel(0, input), 2, 0L)
    stragglers.started(1, channel(1), 2, 0L)
    for (_ <- 0 until 2) stragglers.arrived(0, channel(0, 0), ms(10))
    assert(!stragglers.tick(CaptureMode.Unaligned, ms(100000)), "the other input is still read")
    stragglers.arrived(0, channel(0, 1), ms(20))
    assert(stragglers.tick(CaptureMode.Unaligned, ms(100001)))
    assert(stragglers.overtaken == Set(1L))
  }

  /** Starts tasks 0, 1, ... at time 0; each reads one channel. */
  private def begun(tasks: Int): Stragglers = {
    val stragglers = new Stragglers
    (0 until tasks).foreach(i => stragglers.started(i.toLong, Operator, i, Partitions, 0L))
    stragglers
  }

  test("no task is late before half of the partitions have arrived") {
    val stragglers = begun(Partitions)
    stragglers.arrived(0, ms(10))
    assert(!stragglers.tick(CaptureMode.Unaligned, ms(100000)))
    assert(stragglers.overtaken.isEmpty)
  }

  test("a task is late after twice the median, and 200 ms") {
    for ((arrivedMs, limitMs) <- Seq(10L -> 210L, 200L -> 400L, 1000L -> 2000L)) {
      val stragglers = begun(Partitions)
      stragglers.arrived(0, ms(arrivedMs))
      stragglers.arrived(1, ms(arrivedMs))
      assert(!stragglers.tick(CaptureMode.Unaligned, ms(limitMs)))
      assert(stragglers.tick(CaptureMode.Unaligned, ms(limitMs + 1)))
      assert(stragglers.overtaken == Set(2L, 3L))
      assert(!stragglers.tick(CaptureMode.Unaligned, ms(limitMs + 2)), "reported twice")
    }
  }

  test("a task that waits for a slot is not late, however old the epoch is") {
    val stragglers = begun(2)
    stragglers.arrived(0, ms(1000))
    stragglers.arrived(1, ms(1000))
    stragglers.started(2, Operator, 2, Partitions, ms(5000))
    assert(!stragglers.tick(CaptureMode.Unaligned, ms(5100)))
    assert(stragglers.tick(CaptureMode.Unaligned, ms(7001)))
  }

  test("auto waits for its timeout from the time at which the task became a straggler") {
    val auto = CaptureMode.Auto(ms(500))
    val stragglers = begun(Partitions)
    stragglers.arrived(0, ms(10))
    stragglers.arrived(1, ms(10))
    assert(!stragglers.tick(auto, ms(211)))
    assert(!stragglers.tick(auto, ms(710)))
    assert(stragglers.tick(auto, ms(711)))
  }

  test("aligned overtakes no task") {
    val stragglers = begun(Partitions)
    (0L until 3L).foreach(stragglers.arrived(_, ms(1)))
    assert(!stragglers.tick(CaptureMode.Aligned, ms(100000)))
  }

  test("a task with two channels has arrived when it has read both") {
    val stragglers = new Stragglers
    for (task <- 0 until Partitions; input <- 0 until 2)
      stragglers.started(task.toLong, channel(task, input), Partitions, 0L)
    (0L until 4L).foreach(stragglers.arrived(_, ms(10)))
    assert(
      !stragglers.tick(CaptureMode.Unaligned, ms(100000)),
      "half of the inputs is not half of the tasks"
    )
    (0L until 2L).foreach(stragglers.arrived(_, channel(0, 1), ms(20)))
    assert(stragglers.tick(CaptureMode.Unaligned, ms(100000)))
    assert(stragglers.overtaken == Set(2L, 3L))
  }

  test("two attempts at a partition count as one arrival") {
    val stragglers = begun(Partitions)
    stragglers.started(10, Operator, 0, Partitions, 0L)
    stragglers.arrived(0, ms(10))
    stragglers.arrived(10, ms(10))
    assert(!stragglers.tick(CaptureMode.Unaligned, ms(100000)))
  }

  test("each operator is evaluated separately") {
    val stragglers = begun(Partitions)
    stragglers.started(20, 1L, 0, Partitions, 0L)
    (0L until 4L).foreach(stragglers.arrived(_, ms(10)))
    assert(!stragglers.tick(CaptureMode.Unaligned, ms(100000)))
  }

  test("a manual cut overtakes all running tasks and all later ones") {
    val stragglers = begun(2)
    stragglers.cutNow(ms(1))
    assert(stragglers.overtaken == Set(0L, 1L))
    stragglers.started(2, Operator, 2, Partitions, ms(7))
    stragglers.cutNow(ms(8))
    assert(stragglers.overtaken == Set(0L, 1L, 2L))
    // Later attempts have the time of the first cut, too.
    for (attempt <- 0L to 2L) assert(stragglers.overtakenNs(attempt).contains(ms(1)))
  }

  test("an attempt that has failed is not overtaken") {
    val stragglers = begun(Partitions)
    (0L until 3L).foreach(stragglers.arrived(_, ms(1)))
    stragglers.endAttempt(3)
    assert(!stragglers.tick(CaptureMode.Unaligned, ms(100000)) && !stragglers.isRunning)
  }
}
