package io.cleancut.cuts

import java.util.concurrent.TimeUnit

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.Clock

class EpochPaceSuite extends AnyFunSuite {
  private val Forever = 60_000L
  private val Short = 200L

  private def took(act: => Unit): Long = {
    val start = System.nanoTime()
    act
    TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - start)
  }

  /** Rests in a thread of its own, which is given once it does. */
  private def resting(pace: EpochPace): Thread = {
    val thread = new Thread(() => pace.rest())
    thread.start()
    while (thread.getState != Thread.State.TIMED_WAITING) Thread.sleep(1)
    thread
  }

  test("epochs follow each other at once where nothing is asked") {
    val pace = new EpochPace(Clock.System)
    assert(took((0 until 1000).foreach(_ => pace.rest())) < 5000)
  }

  test("a pause is kept after each epoch, and an interval between two beginnings") {
    val pace = new EpochPace(Clock.System)
    pace.set(Pace(Short, 0L, None))
    assert(took(pace.rest()) >= Short)
    pace.set(Pace(0L, Short, None))
    pace.rest()
    assert(took(pace.rest()) >= Short - 50)
    Thread.sleep(Short + 50)
    assert(took(pace.rest()) < Short, "the epoch has taken the interval itself")
  }

  test("another pace holds at once, and so does the end of the run") {
    val pace = new EpochPace(Clock.System)
    pace.set(Pace(Forever, 0L, None))
    val changed = resting(pace)
    pace.set(Pace.Free)
    changed.join(Forever / 2)
    assert(!changed.isAlive)
    pace.set(Pace(Forever, 0L, None))
    val over = resting(pace)
    pace.ended()
    over.join(Forever / 2)
    assert(!over.isAlive)
  }

  test("who is interrupted does not rest, and still is") {
    val pace = new EpochPace(Clock.System)
    pace.set(Pace(Forever, 0L, None))
    Thread.currentThread.interrupt()
    assert(took(pace.rest()) < Forever && Thread.interrupted())
  }

  test("a budget buys an interval by what epochs cost") {
    val pace = new EpochPace(Clock.System)
    pace.set(Pace(0L, 0L, Some(5.0)))
    assert(pace.boughtMs == 0L)
    // A thousandth of a dollar each, of which five dollars buy 5,000 a day.
    for (_ <- 0 until 300) pace.spent(0.001)
    assert(pace.boughtMs == 17280L)
    for (_ <- 0 until 300) pace.spent(0.0)
    assert(pace.boughtMs == 0L)
    for (_ <- 0 until 300) pace.spent(100.0)
    assert(pace.boughtMs == 3600L * 1000)
  }
}
