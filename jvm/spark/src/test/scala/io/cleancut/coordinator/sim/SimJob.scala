package io.cleancut.coordinator.sim

import scala.collection.mutable

import io.cleancut.base.StoreId

/**
 * One action on an epoch: it runs all tasks of its stages, each until one attempt has succeeded.
 *
 * @param keeps
 *   whether the rows of its last stage are kept
 */
final class SimJob(world: World, process: SimProcess, work: EpochWork, keeps: Boolean) {
  import SimJob._
  import world.{baton, faults, invariants, plan, random}

  /** The ids that Spark counts: those of the first successful attempt of each task. */
  val counted = mutable.Map.empty[StoreId, String]

  /** The rows that each task has emitted, by key. */
  val emitted = mutable.Map.empty[SimTask, Vector[Int]]

  def runAll(): Unit = plan.stages.foreach(runStage)

  /** Runs an action that reads a few partitions of the result. */
  def runSome(): Unit = {
    plan.stages.init.foreach(runStage)
    runStage(random.shuffle(plan.stages.last).take(1))
  }

  private def runStage(tasks: Seq[SimTask]): Unit = {
    runTasks(tasks)
    // With an executor the output of its tasks is lost.
    val factor = if (plan.rows.isGrouped) GroupedFactor else 1.0
    if (faults.strikes(Fault.TaskAgain, factor * PerTask))
      runTasks(Seq(tasks(random.nextInt(tasks.size))))
  }

  private def runTasks(tasks: Seq[SimTask]): Unit = {
    val waiting = mutable.Queue.from(tasks.map(new Running(_)))
    val running = mutable.ArrayBuffer.empty[Running]
    def fill(): Unit = while (waiting.nonEmpty && running.size < plan.slots) {
      waiting.head.start()
      running += waiting.dequeue()
    }
    fill()
    if (random.nextInt(CutEach) == 0) process.tell(s"cut of epoch ${work.epoch}") { cuts =>
      if (cuts.cutNow()) faults.count(Fault.CutNow)
    }
    while (running.nonEmpty) {
      baton.yieldUntil(running.exists(_.isDue))
      running.filter(_.isDue).foreach(_.poll())
      running.filterInPlace(!_.isDone)
      fill()
    }
  }

  final private class Running(task: SimTask) {
    private val attempts = mutable.Buffer.empty[SimAttempt]
    var isDone = false

    def isDue: Boolean = !isDone && (attempts.forall(_.isOver) || success.isDefined)

    def start(): Unit = {
      attempt()
      if (faults.strikes(Fault.Speculation, PerTask)) attempt()
    }

    def poll(): Unit = success match {
      case Some(done) =>
        isDone = true
        done.ids.foreach { case (store, id) => counted.getOrElseUpdate(store, id) }
        val before = emitted.getOrElseUpdate(task, done.rows)
        if (before != done.rows) {
          invariants.violated(s"attempts at $task emitted other rows: $before and ${done.rows}")
        }
        if (random.nextBoolean()) attempts.foreach(_.kill())
      case None if attempts.size >= MaxAttempts =>
        throw new AttemptLost(s"$task failed ${attempts.size} times: ${attempts.last.outcome}")
      case None => attempt()
    }

    private def attempt(): Unit = {
      val executor = process.executors(random.nextInt(process.executors.size))
      val isKept = keeps && plan.stages.last.contains(task)
      attempts += new SimAttempt(world, executor, work, task, isKept)
    }

    private def success = attempts
      .flatMap(_.outcome)
      .collectFirst { case Right(done) => done }
      .orElse(attempts.flatMap(_.kept).headOption)
  }
}

private object SimJob {
  val MaxAttempts = 4

  /** One of this many stages is cut while it runs. */
  val CutEach = 2

  /** Repeated tasks are more frequent in grouped runs, because they check the order of rows. */
  val GroupedFactor = 8.0

  /** A factor for faults of tasks, which are less frequent than requests. */
  val PerTask = 3.0
}
