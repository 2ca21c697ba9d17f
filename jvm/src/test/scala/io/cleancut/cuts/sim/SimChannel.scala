package io.cleancut.cuts.sim

import java.util.concurrent.CompletableFuture

import scala.collection.mutable

import io.cleancut.StateVersion
import io.cleancut.StoreId
import io.cleancut.channels._
import io.cleancut.cuts.Arrival
import io.cleancut.format.{FrameKind, FrameName}

/**
 * The channel of a task, as one attempt reads it: first the rows that the last cut holds for it,
 * then those of the epoch, in any order, until it is overtaken. What is left then stays in flight,
 * but for the first row and for such as would be late in the next epoch.
 */
final class SimChannel(
    world: World,
    executor: SimExecutor,
    work: EpochWork,
    attempt: Long,
    writer: String,
    of: SimTask
) {
  import world.{baton, faults, invariants, plan}

  private val driver = executor.driver
  private val channel = of.channel
  private var opened: ChannelOpened = _
  private var isOvertaken = false
  private var isDone = false

  /** What its attempt tells of it when it begins. */
  val task: ChannelTask = ChannelTask(
    attempt,
    channel,
    work.epoch,
    plan.partitions,
    executor.name,
    if (work.captures) Capture(CaptureMode.Unaligned, None) else Capture.Off
  )

  /** What its attempt has to tell of it when it is done. */
  var arrival = Option.empty[Arrival]

  def open(told: ChannelOpened): Unit = {
    opened = told
    isOvertaken = opened.isOvertaken
    if (opened.mayDefer && !isOvertaken) {
      baton.spawn(s"watch of $attempt", executor)(watch())
      ()
    }
  }

  /** The rows that it hands on; those that it leaves are durable then, and reported. */
  def read(): Vector[Int] =
    try {
      val news = work.rowsOf(plan, of.partition)
      val stored =
        if (world.defect == Defect.NotReplayed) None else opened.stored.map(executor.channelRows)
      stored.foreach(_ => faults.count(Fault.Replay))
      val source = stored.getOrElse(Vector.empty) ++ world.random.shuffle(news)
      opened.decided match {
        case Some((_, frame)) if opened.isFinished =>
          frame.foreach(executor.channelRows)
          Vector.empty
        case None if opened.isFinished => Vector.empty
        case Some((report, frame))     => follow(source, report, frame)
        case None if opened.mayDefer   =>
          val staying = decide(source)
          leave(staying, ChannelReport(channel, digest(source), digest(staying)))
          source.diff(staying)
        case None => source
      }
    } finally isDone = true

  private def decide(source: Vector[Int]): Vector[Int] = {
    val staying = source.zipWithIndex.collect {
      case (row, index) if isLeft(row, index) => row
    }
    if (staying.nonEmpty) faults.count(Fault.LeftInFlight)
    staying
  }

  private def isLeft(row: Int, index: Int): Boolean = {
    baton.yieldNow()
    index > 0 && isOvertaken && row % SimChannel.Late != 0
  }

  private def follow(
      source: Vector[Int],
      report: ChannelReport,
      frame: Option[ChannelRows]
  ): Vector[Int] = {
    faults.count(Fault.Followed)
    if (invariants.isSealedBefore(work.epoch, work.runId)) faults.count(Fault.FollowedSeal)
    val staying =
      if (world.defect == Defect.Undecided) decide(source)
      else frame.fold(Vector.empty[Int])(executor.channelRows)
    val found = ChannelReport(channel, digest(source), digest(staying))
    if (found != report && world.defect != Defect.Undecided) {
      invariants.violated(s"$channel of epoch ${work.epoch} was decided as $report, and is $found")
    }
    leave(staying, report)
    source.diff(staying)
  }

  private def leave(staying: Vector[Int], report: ChannelReport): Unit = {
    if (staying.nonEmpty) {
      val version = StateVersion(work.epoch + 1, StateVersion.newId(world.clock))
      val name = FrameName(channel, version, FrameKind.Base)
      executor.deliver(work.runId, attempt, Seq(SimFrame(name, None, writer, staying)))
    }
    if (world.defect != Defect.Unreported) arrival = Some(Arrival(report, ChannelReading.Nothing))
    if (!faults.strikes(Fault.LostArrival, SimChannel.Untold)) driver.tell(s"arrival of $attempt") {
      cuts =>
        cuts.arrived(work.runId, attempt, report)
        ()
    }
  }

  /** Until it hears that it is overtaken; others of this executor may be so before. */
  private def watch(): Unit = {
    val known = mutable.Set.empty[Long]
    while (!isDone && !isOvertaken) {
      val told = driver.ask[CompletableFuture[Set[Long]]](work.runId, "await")(_ => false) {
        _.awaitOvertaken(work.runId, executor.name, known.toSet)
      }
      baton.yieldUntil(told.isDone || isDone || !driver.isAlive)
      // One that is told nothing waits for the end of its task.
      val attempts = if (told.isDone) told.get() else Set.empty[Long]
      known ++= attempts
      isOvertaken = attempts(attempt)
      if (attempts.isEmpty) isDone = true
    }
  }

  private def digest(rows: Seq[Int]): RowsDigest = SimChannel.digest(rows)
}

object SimChannel {

  /** Nothing but the time of stragglers hangs on the news of an arrival. */
  private val Untold = 5.0

  /** Rows of which the numbers can be divided by it may not be left in flight. */
  private val Late = 7

  /** The channel that leads to a task. */
  def of(operator: Int, partition: Int): StoreId =
    StoreId(operator.toLong, partition, Channels.name(0))

  def digest(rows: Seq[Int]): RowsDigest = {
    val made = new RowsDigest.Builder
    // Numbers that tell more than their sum does.
    rows.foreach(row => made.add(new java.util.SplittableRandom(row.toLong).nextLong()))
    made.result
  }
}
