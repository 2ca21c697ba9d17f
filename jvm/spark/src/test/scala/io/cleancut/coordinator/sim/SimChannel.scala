package io.cleancut.coordinator.sim

import java.util.SplittableRandom
import java.util.concurrent.CompletableFuture

import scala.collection.mutable

import org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators.{
  SimulatedColumns,
  SimulatedRows,
  SimulatedTask
}

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.conf.{Capture, CaptureMode}
import io.cleancut.coordinator.state.Arrival
import io.cleancut.format.{Channels, FrameKind, FrameName}
import io.cleancut.format.cut.{ChannelReading, ChannelReport, RowsDigest}
import io.cleancut.protocol.{ChannelOpened, ChannelRows, ChannelTask}

/**
 * The shuffle input of a task as one attempt reads it, by the code of the operator. It reads the
 * in-flight rows of the last cut and the rows of the epoch until the attempt is overtaken. The
 * other rows stay in flight, except rows that would be late in the next epoch.
 */
final class SimChannel(
    world: World,
    executor: SimExecutor,
    work: EpochWork,
    attempt: Long,
    writer: String,
    simTask: SimTask
) {
  import world.{baton, faults, invariants, plan}

  private val driver = executor.driver
  private val channel = simTask.channel
  private var opened: ChannelOpened = _
  private var isOvertaken = false
  private var isDone = false
  private val rows = SimChannel.rows(plan.rows)

  /** The registration that its attempt sends when it begins. */
  val task: ChannelTask = ChannelTask(
    attempt,
    channel,
    work.epoch,
    plan.partitions,
    executor.name,
    if (work.captures) Capture(CaptureMode.Unaligned, None) else Capture.Off
  )

  /** The report that its attempt sends when it is done. */
  var arrival = Option.empty[Arrival]

  def open(response: ChannelOpened): Unit = {
    opened = response
    isOvertaken = opened.isOvertaken
    if (opened.mayDefer && !isOvertaken) {
      baton.spawn(s"watch of $attempt", executor)(watch())
      ()
    }
  }

  /** Emits rows. When it returns, the rows that stay in flight are durable and reported. */
  def read(): Vector[Int] =
    try {
      val exchanged = plan.rows.exchanged(work.rowsOf(plan, simTask.partition), world.random)
      val stored =
        if (world.defect == Defect.NotReplayed) None else opened.stored.map(executor.channelRows)
      stored.foreach(_ => faults.count(Fault.Replay))
      val source = stored.fold(exchanged)(inTurn(_, exchanged))
      opened.decided match {
        case Some((_, frame)) if opened.isFinished =>
          frame.foreach(executor.channelRows)
          Vector.empty
        case None if opened.isFinished => Vector.empty
        case Some((report, frame))     => follow(source, report, frame)
        case None if opened.mayDefer   => rows.decide(source, new Task(None))
        case None                      => source
      }
    } finally isDone = true

  private def inTurn(stored: Vector[Int], exchanged: Vector[Int]): Vector[Int] =
    if (!plan.rows.isGrouped) stored ++ exchanged
    else {
      val merged = rows.inTurn(stored, exchanged, world.defect == Defect.KeySorted)
      val keys = merged.map(plan.rows.key)
      val groups = keys.zip(keys.drop(1)).count { case (a, b) => a != b } + 1
      if (groups > Math.max(keys.distinct.size, 1))
        invariants.violated(s"$channel has a key of epoch ${work.epoch} twice: $merged")
      merged
    }

  private def follow(
      source: Vector[Int],
      report: ChannelReport,
      frame: Option[ChannelRows]
  ): Vector[Int] = {
    faults.count(Fault.Followed)
    if (invariants.isSealedBefore(work.epoch, work.runId)) faults.count(Fault.FollowedSeal)
    val staying = frame.fold(Vector.empty[Int])(executor.channelRows)
    val task = new Task(Some(report))
    if (world.defect == Defect.Undecided) rows.decide(source, task)
    else if (world.defect == Defect.FirstEqual) {
      leave(staying, report)
      source.diff(staying)
    } else rows.follow(source, report, staying, task)
  }

  /**
   * The task of the attempt.
   *
   * @param decided
   *   the decision of an earlier attempt
   */
  private class Task(decided: Option[ChannelReport]) extends SimulatedTask {
    override def channel: StoreId = simTask.channel
    override def isOvertaken: Boolean = {
      baton.yieldNow()
      SimChannel.this.isOvertaken
    }
    override def arrived(kept: Vector[Int], report: ChannelReport): Unit = {
      if (decided.isEmpty && kept.nonEmpty) faults.count(Fault.LeftInFlight)
      leave(kept, decided.getOrElse(report))
    }
    override def differs(decided: ChannelReport, actual: ChannelReport): Throwable = {
      invariants.violated(
        s"$channel of epoch ${work.epoch} was decided as $decided, and is $actual"
      )
      new AttemptLost("the input differs")
    }
  }

  private def leave(staying: Vector[Int], report: ChannelReport): Unit = {
    if (staying.nonEmpty) {
      val version = StateVersion(work.epoch + 1, StateVersion.newId(world.clock))
      val name = FrameName(channel, version, FrameKind.Base)
      executor.deliver(work.runId, attempt, Seq(SimFrame(name, None, writer, staying)))
    }
    if (world.defect != Defect.Unreported) arrival = Some(Arrival(report, ChannelReading.Nothing))
    if (!faults.strikes(Fault.LostArrival, SimChannel.LostFactor))
      driver.tell(s"arrival of $attempt") { cuts =>
        cuts.arrived(work.runId, attempt, report)
        ()
      }
  }

  /**
   * Waits until the attempt is overtaken; other attempts of the executor may be overtaken first.
   */
  private def watch(): Unit = {
    val known = mutable.Set.empty[Long]
    while (!isDone && !isOvertaken) {
      val response = driver.ask[CompletableFuture[Set[Long]]](work.runId, "await")(_ => false) {
        _.awaitOvertaken(work.runId, executor.name, known.toSet)
      }
      baton.yieldUntil(response.isDone || isDone || !driver.isAlive)
      // Without overtaken attempts it waits for the end of its task.
      val attempts = if (response.isDone) response.get() else Set.empty[Long]
      known ++= attempts
      isOvertaken = attempts(attempt)
      if (attempts.isEmpty) isDone = true
    }
  }
}

object SimChannel {

  /** Lost arrivals are frequent, because only the choice of stragglers depends on them. */
  private val LostFactor = 5.0

  /** The channel of a task. */
  def of(operator: Int, partition: Int): StoreId =
    StoreId(operator.toLong, partition, Channels.name(0))

  def digest(rows: Seq[Int]): RowsDigest = {
    val made = new RowsDigest.Builder
    rows.foreach(row => made.add(hash(row)))
    made.result
  }

  /** A hash of a row; unlike sums of rows, sums of hashes rarely collide. */
  private def hash(row: Int): Long = new SplittableRandom(row.toLong).nextLong()

  private def rows(rows: SimRows): SimulatedRows = {
    val position = Option.when(rows.isSorted)(rows.position _)
    val columns = SimulatedColumns(rows.key, position, rows.isLate, hash)
    new SimulatedRows(columns, rows.splitsGroups, rows.maxInFlight)
  }
}
