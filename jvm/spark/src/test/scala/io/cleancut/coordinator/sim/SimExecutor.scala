package io.cleancut.coordinator.sim

import java.util.concurrent.CompletableFuture

import scala.collection.mutable
import scala.util.control.NonFatal

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.{Arrival, Delivery}
import io.cleancut.cutstore.{CutArchive, SegmentPacker}
import io.cleancut.objectstore.{ObjectKey, RangeResult, RootedStore}
import io.cleancut.protocol.{Ack, ChannelRows, Refusal}
import io.cleancut.format._
import io.cleancut.format.cut.{RunId, SealedFrame, Segment}

/** The failure of a task attempt. */
final class AttemptLost(message: String) extends RuntimeException(message)

/** A process that runs tasks and caches the versions of stores that it has read or written. */
final class SimExecutor(world: World, val driver: SimProcess, val name: String) {
  import SimExecutor.Held
  import world.{baton, faults, plan}

  private val clock = world.hostClock()
  private val root = new RootedStore(world.store(s"${driver.name}-$name", clock), Names.Root)
  private val archive = new CutArchive(root, clock)
  private val states = mutable.LinkedHashMap.empty[(StoreId, StateVersion), Held]
  var isAlive = true

  def crash(): Unit = {
    isAlive = false
    baton.crash(this)
  }

  /** The rows of a store at a version, from memory or from the frames of the cut. */
  def load(runId: String, store: StoreId, version: Long, id: Option[String]): Vector[Int] =
    (version, id) match {
      case (0L, _)      => Vector.empty
      case (_, Some(v)) =>
        val key = (store, StateVersion(version, v))
        states.getOrElseUpdate(key, fromCut(runId, store, version, v)).rows
      case (_, None) if version <= plan.levelZeroEpochs =>
        plan.rowsOf(store.partition, 0, world.invariants.end(version - 1))
      case (_, None) => throw new AttemptLost(s"no version $version of $store")
    }

  def keep(store: StoreId, version: StateVersion, rows: Vector[Int], writer: String): Unit =
    states((store, version)) = Held(rows, writer)

  /** Continues from the version of a seal, not from one that this process has made. */
  def takeOver(counted: StoreCut): Unit =
    states((counted.store, counted.version)) = held(counted)

  /** Delivers frames: the driver receives each one, or its location in a separate object. */
  def deliver(
      runId: String,
      attempt: Long,
      frames: Seq[SimFrame],
      arrival: Option[Arrival] = None
  ): Unit = {
    val all = frames.map(frame => SealedFrame(frame.name, attempt, frame.toBytes))
    val (small, large) = all.partition(_ => world.random.nextBoolean())
    val (placed, later) = large.map(place(runId, _)).unzip
    val acks = send(runId, Delivery(attempt, small, placed, arrival.toSeq))
    later.foreach(_())
    val full = small.zip(acks).collect { case (frame, None) => frame }
    val (rest, restLater) = full.map(place(runId, _)).unzip
    val further = if (rest.isEmpty) Nil else send(runId, Delivery(attempt, Nil, rest))
    restLater.foreach(_())
    val refused = (acks ++ further).flatten.filterNot(AcceptedResponses.acked)
    if (refused.nonEmpty) throw new AttemptLost(refused.mkString(" "))
  }

  private def send(runId: String, made: Delivery): Seq[Option[Ack]] =
    answer(
      driver
        .ask(runId, "delivery")(AcceptedResponses.delivered)(_.deliver(runId, made))
        .fold(refusal => throw new AttemptLost(refusal.why), done => done)
    )

  /** Writes a base of a version that is in memory. */
  def maintain(runId: String): Unit = if (states.nonEmpty) {
    val ((store, version), held) = states.toSeq(world.random.nextInt(states.size))
    baton.spawn("maintenance", this) {
      val name = FrameName(store, version, FrameKind.Base)
      val base = SimFrame(name, None, held.writer, held.rows)
      val isLong = world.defect == Defect.NotSpared || world.random.nextInt(4) > 0
      try
        if (!isLong) deliver(runId, SealedFrame.Maintenance, Seq(base))
        else upload(runId, SealedFrame(name, SealedFrame.Maintenance, base.toBytes))
      catch { case NonFatal(_) => () }
    }
    ()
  }

  /** Announces a base and uploads it slowly. */
  private def upload(runId: String, base: SealedFrame): Unit = {
    val version = base.name.version.number
    val run = identity(runId, version - 1)
    val id = StateVersion.newId(clock)
    val segment = new Segment(CutLayout.segment(run.epoch, name, id), run)
    driver
      .ask(runId, "announce")(AcceptedResponses.right[Refusal, Unit])(
        _.announce(runId, segment.name, version)
      )
      .fold(refusal => throw new AttemptLost(refusal.why), _ => ())
    val epochs =
      if (world.defect == Defect.NotSpared) plan.baseMargin + 2
      else if (world.random.nextBoolean()) plan.baseMargin + 1
      else world.random.nextInt(plan.baseMargin.toInt + 4).toLong
    val due = world.invariants.last + epochs
    baton.yieldUntil(world.invariants.last >= due)
    val (bytes, placed) = segment.pack(Seq(base))
    root.put(ObjectKey(segment.name), bytes)
    if (world.invariants.last - run.epoch > plan.baseMargin) faults.count(Fault.LongUpload)
    send(runId, Delivery(SealedFrame.Maintenance, Nil, placed))
    ()
  }

  private def answer[A](done: CompletableFuture[A]): A = {
    baton.yieldUntil(done.isDone || !driver.isAlive)
    if (!done.isDone) throw new Unreachable(s"${driver.name} has crashed")
    done.get()
  }

  /** Writes a frame into an object; returns its location and an action for after its report. */
  private def place(runId: String, frame: SealedFrame): (PlacedFrame, () => Unit) = {
    val epoch = frame.name.version.number - 1
    val segmentId = identity(runId, epoch)
    if (world.defect != Defect.EarlyAck)
      (SegmentPacker.writeSegment(root, name, clock)(segmentId, Seq(frame)).head, () => ())
    else {
      val id = StateVersion.newId(clock)
      val segment = new Segment(CutLayout.segment(epoch, name, id), segmentId)
      val (bytes, placed) = segment.pack(Seq(frame))
      // The upload runs in the background, after the next step of the task.
      def upload(): Unit = {
        baton.spawn("upload", this)(root.put(ObjectKey(segment.name), bytes))
        ()
      }
      (placed.head, () => upload())
    }
  }

  private def identity(runId: String, epoch: Long): SegmentIdentity = {
    val run = driver
      .ask(runId, "writer")(AcceptedResponses.right[Refusal, RunId])(_.writer(runId))
      .fold(refusal => throw new AttemptLost(refusal.why), run => run)
    SegmentIdentity(epoch, name, runId, run.generation)
  }

  /** The rows of a channel, from the driver's response or from their location. */
  def channelRows(rows: ChannelRows): Vector[Int] = rows match {
    case ChannelRows.Placed(_, place) => read(place).rows
    case ChannelRows.Held(_, bytes)   => SimFrame.parse(bytes).rows
  }

  def read(place: FramePlace): SimFrame =
    root.getRange(ObjectKey(place.segment), place.offset, place.length.toInt) match {
      case RangeResult.Found(bytes) =>
        SimFrame.parse(bytes).followed((_, at) => Some(read(at)))
      case other => throw new AttemptLost(s"${place.segment}: $other")
    }

  private def fromCut(runId: String, store: StoreId, version: Long, id: String): Held = {
    val stored = archive.cuts.read(version - 1).flatMap(_.of(store))
    val part = stored.orElse(beingWritten(runId, store, version)).getOrElse {
      throw new AttemptLost(s"no cut has version $version of $store")
    }
    if (part.version.id != id) throw new AttemptLost(s"${part.version} instead of $id")
    held(part)
  }

  /** The frames of a version in a cut that does not exist yet. */
  private def beingWritten(runId: String, store: StoreId, version: Long): Option[StoreCut] =
    driver
      .ask(runId, "chain")(AcceptedResponses.right[Refusal, Option[StoreCut]])(
        _.chain(runId, store, version)
      )
      .getOrElse(None)

  private def held(part: StoreCut): Held = {
    val frames = part.frames.toVector.map { case (_, _, place) => read(place) }
    Held(frames.flatMap(_.rows), frames.last.writer)
  }
}

private object SimExecutor {

  /** A version in memory, and the attempt that made it. */
  final case class Held(rows: Vector[Int], writer: String)
}
