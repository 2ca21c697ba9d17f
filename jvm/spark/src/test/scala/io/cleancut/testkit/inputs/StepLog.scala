package io.cleancut.testkit.inputs

import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

/**
 * Writes the different steps of one run of a state machine, each with the step before it.
 *
 * @param space
 *   a space with [[StepLog.dimensions]]
 * @param settings
 *   names of values by dimension, which are the same for all steps
 */
final class StepLog(
    space: InputSpace,
    settings: Map[String, Set[String]],
    log: InputLog = InputLog.default
) {
  private val run = StepLog.newRun()
  private val seen = mutable.Set.empty[Map[String, Set[String]]]
  private var before = Option.empty[String]

  /**
   * Writes a step.
   *
   * @param state
   *   names of values by dimension, before the step
   */
  def add(step: String, state: Map[String, Set[String]] = Map.empty): Unit = {
    val inputs =
      settings ++ state + (StepLog.Step -> Set(step)) ++ before.map(StepLog.StepBefore -> Set(_))
    before = Some(step)
    if (seen.add(inputs)) log.addPart(space, s"$run-${seen.size}", inputs)
  }
}

object StepLog {
  private val Step = "step"
  private val StepBefore = "step before"

  private val runs = new AtomicLong

  /** A name of a run that no other one has. */
  def newRun(): String = s"${ProcessHandle.current.pid}-${runs.incrementAndGet()}"

  /** The dimensions of steps and of the steps before them. */
  def dimensions(steps: Seq[String]): Seq[Dimension[String]] =
    Seq(new Dimension(Step, steps), new Dimension(StepBefore, steps))

  /** A condition on a step. */
  def at(steps: String*): Condition = Condition(Step, steps)

  /** A condition on the step before. */
  def after(steps: String*): Condition = Condition(StepBefore, steps)
}
