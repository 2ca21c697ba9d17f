package io.cleancut.coordinator.sim

import java.util.concurrent.{ExecutorService, Executors}
import java.util.concurrent.locks.LockSupport

import scala.collection.mutable
import scala.util.Random
import scala.util.control.ControlThrowable

/** Thrown in an actor whose process has crashed. Handlers of ordinary errors do not catch it. */
final class Crashed extends ControlThrowable

/** The simulation cannot continue. */
final class Stuck(message: String) extends RuntimeException(message)

/**
 * Runs actors on threads of which exactly one runs at a time. At each scheduling point the running
 * actor passes the baton to an actor that the seed selects. Scheduling points are every request to
 * the object store (before it takes effect, and often after it), every message to a coordinator,
 * every wait and every sleep.
 *
 * An actor that waits at a scheduling point while it holds the monitor of a coordinator blocks all
 * actors that use that coordinator, as the monitor does.
 */
final class Baton(random: Random, maxSteps: Long) {
  import Baton._

  private val actors = mutable.ArrayBuffer.empty[Actor]
  private val main = Thread.currentThread
  @volatile private var isOver = false
  @volatile private var failure = Option.empty[Throwable]
  private var running: Actor = _

  var steps = 0L

  /** The actor that runs now. */
  def current: Actor = running

  final class Actor(val name: String, val process: AnyRef, weight: Int, body: () => Unit) {
    @volatile private[Baton] var thread: Thread = _
    @volatile private[Baton] var hasBaton = false
    private[Baton] var isDead = false
    private[Baton] var isDone = false
    private[Baton] var monitor: AnyRef = _
    private[Baton] var isHolding = false
    private[Baton] var ready: () => Boolean = Always

    def isFinished: Boolean = isDone

    private[Baton] def chance: Int = weight

    private[Baton] def mayRun: Boolean = ready() && !isLockedOut

    private def isLockedOut =
      monitor != null && !isHolding && actors.exists(a => a.isHolding && (a.monitor eq monitor))

    private[Baton] def run(): Unit = {
      thread = Thread.currentThread
      awaitBaton(this)
      try if (!isDead) body()
      catch {
        case _: Crashed   => ()
        case e: Throwable => failure = failure.orElse(Some(e))
      } finally {
        isDone = true
        isHolding = false
        actors -= this
        passBaton()
      }
    }
  }

  /** Adds an actor, which starts at a later step. */
  def spawn(name: String, process: AnyRef, weight: Int = Ordinary, monitor: AnyRef = null)(
      body: => Unit
  ): Actor = {
    val actor = new Actor(name, process, weight, () => body)
    actor.monitor = monitor
    actors += actor
    threads.execute(() => actor.run())
    actor
  }

  /** Runs all actors to their end, while the calling thread waits. */
  def runAll(): Unit = {
    passBaton()
    while (!isOver) LockSupport.park(this)
    failure.foreach(throw _)
  }

  /** Lets other actors run until the condition holds. */
  def yieldUntil(ready: => Boolean): Unit = {
    val me = running
    if (me.isDead) throw new Crashed
    me.ready = () => ready
    me.isHolding = me.monitor != null && Thread.holdsLock(me.monitor)
    passBaton()
    awaitBaton(me)
    me.isHolding = false
    me.ready = Always
    if (me.isDead) throw new Crashed
  }

  def yieldNow(): Unit = yieldUntil(true)

  /** Ends all actors of a process at once, before their next step. */
  def crash(process: AnyRef): Unit = actors.filter(_.process eq process).foreach(_.isDead = true)

  def kill(actor: Actor): Unit = actor.isDead = true

  def isAnyAlive(process: AnyRef): Boolean =
    actors.exists(a => (a.process eq process) && !a.isDead)

  private def passBaton(): Unit = {
    steps += 1
    val next =
      if (failure.isDefined || steps > maxSteps) stop()
      else if (actors.isEmpty) null
      else actors.find(_.isDead).getOrElse(drawNext())
    if (next == null) {
      isOver = true
      LockSupport.unpark(main)
    } else {
      running = next
      next.hasBaton = true
      LockSupport.unpark(next.thread)
    }
  }

  private def drawNext(): Actor = {
    val able = actors.filter(_.mayRun)
    if (able.isEmpty) stop(s"no actor can continue: ${actors.map(_.name).mkString(", ")}")
    else {
      var at = random.nextInt(able.iterator.map(_.chance).sum)
      able.find { actor =>
        at -= actor.chance
        at < 0
      }.get
    }
  }

  /** Ends the simulation: each actor is woken to crash. */
  private def stop(reason: String = s"no end after $maxSteps steps"): Actor = {
    failure = failure.orElse(Some(new Stuck(reason)))
    actors.foreach(_.isDead = true)
    actors.headOption.orNull
  }

  private def awaitBaton(actor: Actor): Unit = {
    while (!actor.hasBaton) LockSupport.park(this)
    actor.hasBaton = false
  }
}

object Baton {
  val Ordinary = 16

  /** The weight of an actor that others usually overtake. */
  val Slow = 1

  private val Always = () => true

  private val threads: ExecutorService = Executors.newCachedThreadPool { body =>
    val thread = new Thread(body, "simulation")
    thread.setDaemon(true)
    thread
  }
}
