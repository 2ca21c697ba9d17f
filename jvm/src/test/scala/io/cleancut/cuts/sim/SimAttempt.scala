package io.cleancut.cuts.sim

import scala.util.control.NonFatal

import io.cleancut.{StateVersion, StoreId}
import io.cleancut.cuts.{Opened, Refusal}
import io.cleancut.format.{FrameKind, FrameName, StoreCut}

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
 *   that it gave, in ascending order
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
      channel.foreach(_.open())
      val opened = task.stores.map(store => store -> open(store))
      val states = opened.map { case (store, open) =>
        (store, open, executor.load(store, work.epoch, open.accepted))
      }
      val news = channel.fold {
        work.rowsOf(world.plan, task.partition)
      }(_.read())
      val ids = states.map { case (store, open, rows) =>
        mayFail()
        store -> open.sealedAs.fold(commit(store, open, rows, news)) { counted =>
          takeOver(counted, rows ++ news)
        }
      }
      mayFail()
      done = Some(TaskDone(ids.toMap, news.sorted))
      if (keeps && faults.strikes(Fault.FailedBehind, SimJob.PerTask))
        throw new AttemptLost("what reads its rows failed")
      outcome = done.map(Right(_))
    } catch {
      case NonFatal(e) =>
        outcome = Some(Left(e))
        reportFailure()
    }

  private def open(store: StoreId): Opened = {
    val isTold = world.defect != Defect.NoAttempts || store == task.stores.head
    val opened =
      if (isTold) {
        executor.driver.ask(work.runId, "open")(Believed.right[Refusal, Opened]) {
          _.open(work.runId, id, store, work.epoch)
        }
      } else {
        val known = executor.driver.ask[Option[String]](work.runId, "accepted")(_ => false) {
          _.accepted(store, work.epoch)
        }
        Right(Opened(known, needsBase = work.epoch > 0 && known.isEmpty))
      }
    val answer = opened.fold(why => throw new AttemptLost(why.why), identity)
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

  private def commit(
      store: StoreId,
      opened: Opened,
      before: Vector[Int],
      news: Vector[Int]
  ): String = {
    val version = StateVersion(work.epoch + 1, StateVersion.newId(world.clock))
    def frame(kind: FrameKind, parent: Option[String], rows: Vector[Int]) =
      executor.write(
        work.runId,
        id,
        SimFrame(FrameName(store, version, kind), parent, writer, rows)
      )
    frame(FrameKind.Delta, opened.accepted, news)
    if (opened.needsBase || world.random.nextInt(8) == 0) {
      frame(FrameKind.Base, None, before ++ news)
    }
    executor.keep(store, version, before ++ news, writer)
    version.id
  }

  /** The epoch is finished from its seal. */
  private def takeOver(counted: StoreCut, made: Vector[Int]): String = {
    if (world.defect == Defect.KeptAsMade) {
      executor.keep(counted.store, counted.version, made, writer)
    } else executor.takeOver(counted)
    counted.version.id
  }

  private def mayFail(): Unit = {
    baton.yieldNow()
    if (faults.strikes(Fault.AttemptFailed)) throw new AttemptLost("the task's code failed")
  }

  private def reportFailure(): Unit = if (!faults.strikes(Fault.LostFailure)) {
    executor.driver.tell(s"failure of $id")(_.fail(work.runId, id))
  }
}
