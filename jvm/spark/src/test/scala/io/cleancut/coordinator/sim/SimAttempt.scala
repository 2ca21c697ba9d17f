package io.cleancut.coordinator.sim

import scala.util.control.NonFatal

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.{Opened, TaskStart, TaskStarted}
import io.cleancut.format.{FrameKind, FrameName, StoreCut}
import io.cleancut.protocol.Refusal

/**
 * What the tasks of an epoch are told.
 *
 * @param mark
 *   what its run makes of all rows of the epoch
 * @param captures
 *   whether its run lets rows stay in flight
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
 * What an attempt has made.
 *
 * @param ids
 *   of the versions
 * @param rows
 *   that it gave, by key
 */
final case class TaskDone(ids: Map[StoreId, String], rows: Vector[Int])

/**
 * One attempt at a task, on one executor.
 *
 * @param keeps
 *   whether its rows are kept, where the next attempt finds them
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

  /** What it made, or why it failed. */
  var outcome = Option.empty[Either[Throwable, TaskDone]]

  private var done = Option.empty[TaskDone]

  private val actor = {
    val weight = if (world.random.nextInt(4) == 0) Baton.Slow else Baton.Ordinary
    baton.spawn(s"attempt $id of ${work.runId}", executor, weight)(run())
  }

  def isOver: Boolean = outcome.isDefined || actor.isFinished || !executor.isAlive

  /** What another attempt finds, as long as the executor lives. */
  def kept: Option[TaskDone] = done.filter(_ => keeps && executor.isAlive)

  /** Spark ends an attempt that it does not need. */
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
        (store, open, executor.load(store, work.epoch, open.accepted))
      }
      val news = channel.fold {
        world.plan.rows.sorted(work.rowsOf(world.plan, task.partition))
      }(_.read())
      val made = states.map { case (store, open, rows) =>
        mayFail()
        open.sealedAs match {
          case Some(counted) => store -> takeOver(counted, rows ++ news)
          case None          => store -> make(store, open, rows, news)
        }
      }
      mayFail()
      val deltas = made.flatMap(_._2.toOption)
      if (deltas.nonEmpty)
        executor.deliver(work.runId, id, deltas.map(_.delta), channel.flatMap(_.arrival))
      deltas.foreach(of => executor.keep(of.delta.name.store, of.version, of.rows, writer))
      val ids = made.map { case (store, of) => store -> of.fold(identity, _.version.id) }
      done = Some(TaskDone(ids.toMap, world.plan.rows.byKey(news)))
      if (keeps && faults.strikes(Fault.FailedBehind, SimJob.PerTask))
        throw new AttemptLost("what reads its rows failed")
      outcome = done.map(Right(_))
    } catch {
      case NonFatal(e) =>
        outcome = Some(Left(e))
        reportFailure()
    }

  /** It names its channels, or its first store where it has none; what else it opens it is told. */
  private def start(channel: Option[SimChannel]): TaskStarted = {
    val first = if (channel.isEmpty) task.stores.take(1) else Nil
    tell(TaskStart(id, task.operator, task.partition, work.epoch, first, channel.map(_.task).toSeq))
  }

  private def tell(start: TaskStart): TaskStarted = {
    // No cut has anything beside the stores of no operator.
    val sent = if (world.defect == Defect.NoAttempts) start.copy(operator = -1L) else start
    executor.driver
      .ask(work.runId, "start")(Believed.right[Refusal, TaskStarted])(_.start(work.runId, sent))
      .fold(why => throw new AttemptLost(why.why), identity)
  }

  private def open(store: StoreId, started: TaskStarted): Opened = {
    val isTold = world.defect != Defect.NoAttempts || store == task.stores.head
    val answer = started.stores.getOrElse(
      store,
      if (isTold)
        tell(TaskStart(id, task.operator, task.partition, work.epoch, Seq(store))).stores(store)
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
    // Spark's own note of the version, which comes first where it has one.
    val named = work.baseIds.flatMap(_.get(store))
    if (named.exists(n => answer.accepted.exists(_ != n))) {
      world.invariants.violated(s"Spark goes on from $named of $store, the cut from $answer")
    }
    answer.copy(accepted = named.orElse(answer.accepted))
  }

  /** A base goes by itself, the delta with those of the other stores. */
  private def make(
      store: StoreId,
      opened: Opened,
      before: Vector[Int],
      news: Vector[Int]
  ): Either[String, SimAttempt.Made] = {
    val version = StateVersion(work.epoch + 1, StateVersion.newId(world.clock))
    val rows = before ++ news
    def frame(kind: FrameKind, parent: Option[String], of: Vector[Int]) =
      SimFrame(FrameName(store, version, kind), parent, writer, of)
    if (opened.needsBase || world.random.nextInt(8) == 0)
      executor.deliver(work.runId, id, Seq(frame(FrameKind.Base, None, rows)))
    Right(SimAttempt.Made(version, frame(FrameKind.Delta, opened.accepted, news), rows))
  }

  /** The epoch is finished from its seal. */
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

  /** A version of a store, with all of its rows. */
  final case class Made(version: StateVersion, delta: SimFrame, rows: Vector[Int])
}
