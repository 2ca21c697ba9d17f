package io.cleancut.bench.commits

import io.cleancut.coordinator.QueryCoordinator

/**
 * A thread that takes the lock of a coordinator once a millisecond, and calls `tick` as the driver
 * does. Figures cover the time since the last call of [[figures]].
 */
final class LockWatch(cuts: QueryCoordinator) {
  private val ticks = Array.newBuilder[Long]
  private var longestNs = 0L
  private var turn = 0L

  private val thread = new Thread(() => while (true) step(), "lock watch")
  thread.setDaemon(true)
  thread.start()

  private def step(): Unit = {
    Thread.sleep(1L)
    val start = System.nanoTime()
    cuts.synchronized(())
    val waitedNs = System.nanoTime() - start
    turn += 1
    val tickNs = if (turn % LockWatch.TickEvery == 0) Some(timed(cuts.tick())) else None
    synchronized {
      longestNs = Math.max(longestNs, waitedNs)
      tickNs.foreach(ticks += _)
    }
  }

  private def timed(body: => Any): Long = {
    val start = System.nanoTime()
    body
    System.nanoTime() - start
  }

  /** The longest wait for the lock, and the median duration of a tick. */
  def figures(): Seq[(String, Long)] = synchronized {
    val sorted = ticks.result().sorted
    val result = Seq(
      "longest wait for the lock, ns" -> longestNs,
      "tick, ns" -> sorted.lift(sorted.length / 2).getOrElse(0L)
    )
    ticks.clear()
    longestNs = 0L
    result
  }
}

object LockWatch {

  /** Milliseconds between two ticks. */
  private val TickEvery = 10
}
