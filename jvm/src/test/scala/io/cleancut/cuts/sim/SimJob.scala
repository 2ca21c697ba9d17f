package io.cleancut.cuts.sim

import scala.collection.mutable

import io.cleancut.StoreId

/** One action on an epoch: all tasks of its stages, each until one attempt has succeeded. */
final class SimJob(world: World, process: SimProcess, work: EpochWork) {
  import SimJob._
  import world.{baton, faults, plan, random}

  /** The ids that Spark counts: of the first attempt of each task that it hears of. */
  val counted = mutable.Map.empty[StoreId, String]

  def runAll(): Unit = plan.stages.foreach(runStage)

  /** An action that needs no more than a few partitions of the result. */
  def runSome(): Unit = {
    plan.stages.init.foreach(runStage)
    runStage(random.shuffle(plan.stages.last).take(1))
  }

  private def runStage(tasks: Seq[SimTask]): Unit = {
    runTasks(tasks)
    // An executor that is lost takes the output of its tasks with it.
    if (faults.strikes(Fault.TaskAgain, PerTask)) runTasks(Seq(tasks(random.nextInt(tasks.size))))
  }

  private def runTasks(tasks: Seq[SimTask]): Unit = {
    val running = tasks.map(new Running(_))
    running.foreach(_.start())
    while (running.exists(!_.isDone)) {
      baton.yieldUntil(running.exists(_.isToLookAt))
      running.filter(_.isToLookAt).foreach(_.look())
    }
  }

  final private class Running(task: SimTask) {
    private val attempts = mutable.Buffer.empty[SimAttempt]
    var isDone = false

    def isToLookAt: Boolean = !isDone && (attempts.forall(_.isOver) || success.isDefined)

    def start(): Unit = {
      attempt()
      if (faults.strikes(Fault.Speculation, PerTask)) attempt()
    }

    def look(): Unit = success match {
      case Some(ids) =>
        isDone = true
        ids.foreach { case (store, id) => counted.getOrElseUpdate(store, id) }
        if (random.nextBoolean()) attempts.foreach(_.kill())
      case None if attempts.size >= MaxAttempts =>
        throw new AttemptLost(s"$task failed ${attempts.size} times: ${attempts.last.outcome}")
      case None => attempt()
    }

    private def attempt(): Unit = {
      val executor = process.executors(random.nextInt(process.executors.size))
      attempts += new SimAttempt(world, executor, work, task)
    }

    private def success = attempts.flatMap(_.outcome).collectFirst { case Right(ids) => ids }
  }
}

private object SimJob {
  val MaxAttempts = 4

  /** A task comes less often than a request. */
  val PerTask = 3.0
}
