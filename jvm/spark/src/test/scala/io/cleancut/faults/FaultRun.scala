package io.cleancut.faults

import java.util.concurrent.ConcurrentLinkedQueue

import scala.annotation.tailrec
import scala.jdk.CollectionConverters._
import scala.util.{Random, Try}

import io.cleancut.testkit.FaultProxy.Harm
import io.cleancut.testkit.{Fault, FaultProxy}

/**
 * A planned fault.
 *
 * @param isLasting
 *   whether it strikes repeatedly until the query fails
 */
final case class Plan(step: Step, kind: FaultKind, isLasting: Boolean)

/**
 * Runs a query with faults, in turns. In a turn the query dies between its sink and its cut, and
 * starts with one more file until it succeeds.
 */
final class FaultRun(query: FaultedQuery, proxy: FaultProxy, random: Random) {
  import FaultRun._

  private val seen = new ConcurrentLinkedQueue[Either[String, Step]]
  private var starts = 0
  private var died = Seq.empty[Throwable]

  proxy.reset()
  proxy.watch { request =>
    val step =
      Try(Step.of(request, query.prefix)).fold(e => Some(Left(e.getMessage)), _.map(Right(_)))
    step.foreach(seen.add(_): Unit)
  }

  def deaths: Seq[Throwable] = died

  /**
   * Runs without faults until all expected steps have occurred.
   *
   * @return
   *   the steps of the first start, and those of all later starts
   */
  def enumerate(expected: Set[Step]): (Set[Step], Set[Step]) = {
    turn()
    val first = steps()
    @tailrec def go(left: Int, known: Set[Step]): Set[Step] =
      if (left == 0 || expected.subsetOf(known)) known
      else {
        turn()
        go(left - 1, known ++ steps())
      }
    (first, go(MaxTurns, Set.empty))
  }

  /** The steps of all requests since the last call. */
  private def steps(): Set[Step] = {
    val all = seen.asScala.toSeq
    seen.clear()
    all.map(_.fold(message => throw new IllegalStateException(message), identity)).toSet
  }

  /** Injects each fault and runs until each has struck; returns the strikes of each fault. */
  def all(plans: Seq[Plan]): Map[Plan, Int] = {
    val armed = plans.map(plan => plan -> arm(plan))
    @tailrec def go(left: Int): Unit = {
      turn(armed.map(_._2))
      if (left > 1 && armed.exists(_._2.strikes == 0)) go(left - 1)
    }
    go(MaxTurns)
    // A lasting fault that ends no query would prevent all later steps.
    armed.foreach(_._2.end())
    armed.map { case (plan, harm) => plan -> harm.strikes }.toMap
  }

  /** Injects a fault while the completion of uploads is refused, so that they are aborted. */
  def aborting(plan: Plan): Map[Plan, Int] = {
    val refused =
      proxy.harm(Refusal, times = MaxSpared + 1)(Step.is(KnownSteps.uploadEnd, query.prefix))
    try all(Seq(plan))
    finally refused.end()
  }

  private def turn(armed: Seq[Harm] = Nil): Unit = {
    if (starts > 0) dieBeforeCut(armed)
    query.input.add()
    settle(armed)
  }

  private def arm(plan: Plan): Harm = {
    val times = if (plan.isLasting) Int.MaxValue else 1
    val isSoon = plan.isLasting || KnownSteps.first(plan.step)
    val spared = if (isSoon) 0 else random.nextInt(MaxSpared + 1)
    proxy.harm(plan.kind.fault(random), times, spared)(Step.is(plan.step, query.prefix))
  }

  private def dieBeforeCut(armed: Seq[Harm]): Unit = {
    query.input.add()
    val harm = proxy.harm(Refusal, times = Int.MaxValue)(Step.is(CutCreate, query.prefix))
    @tailrec def go(left: Int): Unit = {
      val death = start(armed)
      if (harm.strikes == 0) {
        if (left == 1) {
          throw new IllegalStateException(s"no cut in $MaxStarts starts, and", death.orNull)
        }
        // A delay struck instead of the refusal, and the epoch is committed.
        if (death.isEmpty) query.input.add()
        go(left - 1)
      }
    }
    go(MaxStarts)
    harm.end()
  }

  @tailrec private def settle(armed: Seq[Harm], left: Int = MaxStarts): Unit =
    start(armed) match {
      case None                 => ()
      case Some(e) if left == 1 => throw new IllegalStateException(s"$MaxStarts starts, and", e)
      case Some(_)              => settle(armed, left - 1)
    }

  private def start(armed: Seq[Harm]): Option[Throwable] = {
    starts += 1
    val death = query.start()
    died ++= death
    if (death.isDefined) armed.filter(_.strikes > 0).foreach(_.end())
    death
  }
}

object FaultRun {
  private val CutCreate = Step("cuts", "create")
  // A response that is not retried.
  private val Refusal = Fault.Answer(403, "AccessDenied")
  // The time of maintenance is not determined.
  private val MaxTurns = 40
  private val MaxStarts = 60

  /** Maximum number of requests of a step before its fault strikes. */
  private val MaxSpared = 1
}
