package io.cleancut.coordinator.sim

import scala.util.control.NonFatal

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.{Opened, TaskStart, TaskStarted}
import io.cleancut.format.{FrameKind, FrameName, StoreCut}
import io.cleancut.protocol.Refusal

/**
 * The work of the tasks of an epoch.
 *
 * @param mark
 *   number that its run adds to each row of the epoch
 * @param captures
 *   whether its run may leave in-flight rows
 */
final case class EpochWork(
    runId: String,
    epoch: Long,
    rows: (Int, Int),
    baseIds: Option[Map[StoreId, String]],
    mark: Int,
    captures: Boolean
) {
  def rowsOf(plan: SimPlan, partition: Int): Vector[Int] =
    plan.rowsOf(partition, rows._1, rows._2).map(_ + mark * SimPlan.Numbers)
}

/**
 * The result of an attempt.
 *
 * @param ids
 *   ids of the versions
 * @param rows
 *   emitted rows, by key
 */
final case class TaskDone(ids: Map[StoreId, String], rows: Vector[Int])

/**
 * One attempt at a task, on one executor.
 *
 * @param keeps
 *   whether the next attempt finds its emitted rows
 */
final class SimAttempt(
    world: World,
    executor: SimExecutor,
    work: EpochWork,
    task: SimTask,
    keeps: Boolean
) {
  import world.{baton, faults}

  private val id = world.nextAttempt()
  private val writer = s"${work.runId}/$id"

  /** The result, or the failure. */
  var outcome = Option.empty[Either[Throwable, TaskDone]]

  private var done = Option.empty[TaskDone]

  private val actor = {
    val weight = if (world.random.nextInt(4) == 0) Baton.Slow else Baton.Ordinary
    baton.spawn(s"attempt $id of ${work.runId}", executor, weight)(run())
  }

  def isOver: Boolean = outcome.isDefined || actor.isFinished || !executor.isAlive

  /** The result that another attempt finds while the executor is alive. */
  def kept: Option[TaskDone] = done.filter(_ => keeps && executor.isAlive)

  /** Ends the attempt, as Spark does with one that it does not require. */
  def kill(): Unit = if (!isOver) {
    baton.kill(actor)
    reportFailure()
  }

  private def run(): Unit =
    try {
      val channel = Option.when(task.isCaptured) {
        new SimChannel(world, executor, work, id, writer, task)
      }
      val started = start(channel)
      channel.foreach(_.open(started.channels(task.channel)))
      val opened = task.stores.map(store => store -> open(store, started))
      val states = opened.map { case (store, open) =>
        (store, open, executor.load(work.runId, store, work.epoch, open.accepted))
      }
      val news = channel.fold {
        world.plan.rows.sorted(work.rowsOf(world.plan, task.partition))
      }(_.read())
      val made = states.map { case (store, open, rows) =>
        mayFail()
        open.sealedChain match {
          case Some(counted) => store -> takeOver(counted, rows ++ news)
          case None          => store -> make(store, open, rows, news)
        }
      }
      mayFail()
      val deltas = made.flatMap(_._2.toOption)
      if (deltas.nonEmpty)
        executor.deliver(work.runId, id, deltas.map(_.delta), channel.flatMap(_.arrival))
      deltas.foreach(made => executor.keep(made.delta.name.store, made.version, made.rows, writer))
      val ids = made.map { case (store, result) => store -> result.fold(identity, _.version.id) }
      done = Some(TaskDone(ids.toMap, world.plan.rows.byKey(news)))
      if (keeps && faults.strikes(Fault.FailedAfterRows, SimJob.PerTask))
        throw new AttemptLost("the reader of its rows failed")
      outcome = done.map(Right(_))
    } catch {
      case NonFatal(e) =>
        outcome = Some(Left(e))
        reportFailure()
    }

  /** Registers the attempt with its channels, or with its first store if it has no channel. */
  private def start(channel: Option[SimChannel]): TaskStarted = {
    val first = if (channel.isEmpty) task.stores.take(1) else Nil
    send(TaskStart(id, task.operator, task.partition, work.epoch, first, channel.map(_.task).toSeq))
  }

  private def send(start: TaskStart): TaskStarted = {
    // No cut has other stores of an operator that does not exist.
    val sent = if (world.defect == Defect.NoAttempts) start.copy(operator = -1L) else start
    executor.driver
      .ask(work.runId, "start")(AcceptedResponses.right[Refusal, TaskStarted])(
        _.start(work.runId, sent)
      )
      .fold(refusal => throw new AttemptLost(refusal.why), identity)
  }

  private def open(store: StoreId, started: TaskStarted): Opened = {
    val isRegistered = world.defect != Defect.NoAttempts || store == task.stores.head
    val answer = started.stores.getOrElse(
      store,
      if (isRegistered)
        send(TaskStart(id, task.operator, task.partition, work.epoch, Seq(store))).stores(store)
      else {
        val known = executor.driver.ask[Option[String]](work.runId, "accepted")(_ => false) {
          _.accepted(store, work.epoch)
        }
        Opened(known, needsBase = work.epoch > 0 && known.isEmpty)
      }
    )
    if (answer.unread.nonEmpty) {
      world.invariants.violated(s"$store is opened without ${answer.unread}")
    }
    // If Spark names a version, it takes precedence.
    val named = work.baseIds.flatMap(_.get(store))
    if (named.exists(n => answer.accepted.exists(_ != n))) {
      world.invariants.violated(s"Spark continues from $named of $store, the cut from $answer")
    }
    answer.copy(accepted = named.orElse(answer.accepted))
  }

  /** Delivers a base at once; returns the delta, which is delivered with those of other stores. */
  private def make(
      store: StoreId,
      opened: Opened,
      before: Vector[Int],
      news: Vector[Int]
  ): Either[String, SimAttempt.Made] = {
    val version = StateVersion(work.epoch + 1, StateVersion.newId(world.clock))
    val rows = before ++ news
    def frame(kind: FrameKind, parent: Option[String], rows: Vector[Int]) =
      SimFrame(FrameName(store, version, kind), parent, writer, rows)
    if (opened.needsBase || world.random.nextInt(8) == 0)
      executor.deliver(work.runId, id, Seq(frame(FrameKind.Base, None, rows)))
    Right(SimAttempt.Made(version, frame(FrameKind.Delta, opened.accepted, news), rows))
  }

  /** Continues from the version of the seal, which finishes the epoch. */
  private def takeOver(counted: StoreCut, made: Vector[Int]): Either[String, SimAttempt.Made] = {
    if (world.defect == Defect.KeptAsMade) {
      executor.keep(counted.store, counted.version, made, writer)
    } else executor.takeOver(counted)
    Left(counted.version.id)
  }

  private def mayFail(): Unit = {
    baton.yieldNow()
    if (faults.strikes(Fault.AttemptFailed)) throw new AttemptLost("the task's code failed")
  }

  private def reportFailure(): Unit = if (!faults.strikes(Fault.LostFailure)) {
    executor.driver.tell(s"failure of $id")(_.fail(work.runId, id))
  }
}

private object SimAttempt {

  /** A version of a store with all its rows. */
  final case class Made(version: StateVersion, delta: SimFrame, rows: Vector[Int])
}
