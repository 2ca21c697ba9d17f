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

/** A task attempt fails with it. */
final class AttemptLost(message: String) extends RuntimeException(message)

/** A process that runs tasks, and keeps the versions of stores that it has seen. */
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

  /** The rows of a store at a version, from memory or from where the cut says they are. */
  def load(store: StoreId, version: Long, id: Option[String]): Vector[Int] =
    (version, id) match {
      case (0L, _)      => Vector.empty
      case (_, Some(v)) =>
        val key = (store, StateVersion(version, v))
        states.getOrElseUpdate(key, fromCut(store, version, v)).rows
      case (_, None) if version <= plan.levelZeroEpochs =>
        plan.rowsOf(store.partition, 0, world.invariants.end(version - 1))
      case (_, None) => throw new AttemptLost(s"no version $version of $store")
    }

  def keep(store: StoreId, version: StateVersion, rows: Vector[Int], writer: String): Unit =
    states((store, version)) = Held(rows, writer)

  /** Goes on from what a seal names, whatever has been made of its version here. */
  def takeOver(counted: StoreCut): Unit =
    states((counted.store, counted.version)) = held(counted)

  /** Delivers frames: each goes to the driver, or into an object of its own first. */
  def deliver(
      runId: String,
      attempt: Long,
      frames: Seq[SimFrame],
      arrival: Option[Arrival] = None
  ): Unit = {
    val all = frames.map(frame => SealedFrame(frame.name, attempt, frame.toBytes))
    val (small, large) = all.partition(_ => world.random.nextBoolean())
    val (placed, later) = large.map(place(runId, _)).unzip
    val acks = tell(runId, Delivery(attempt, small, placed, arrival.toSeq))
    later.foreach(_())
    val full = small.zip(acks).collect { case (frame, None) => frame }
    val (rest, restLater) = full.map(place(runId, _)).unzip
    val further = if (rest.isEmpty) Nil else tell(runId, Delivery(attempt, Nil, rest))
    restLater.foreach(_())
    val refused = (acks ++ further).flatten.filterNot(Believed.acked)
    if (refused.nonEmpty) throw new AttemptLost(refused.mkString(" "))
  }

  private def tell(runId: String, made: Delivery): Seq[Option[Ack]] =
    answer(
      driver
        .ask(runId, "delivery")(Believed.delivered)(_.deliver(runId, made))
        .fold(why => throw new AttemptLost(why.why), done => done)
    )

  /** Writes a base of something that it has in memory. */
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

  /** Announces a base, and takes its time with it. */
  private def upload(runId: String, base: SealedFrame): Unit = {
    val version = base.name.version.number
    val run = identity(runId, version - 1)
    val id = StateVersion.newId(clock)
    val segment = new Segment(CutLayout.segment(run.epoch, name, id), run)
    driver
      .ask(runId, "announce")(Believed.right[Refusal, Unit])(
        _.announce(runId, segment.name, version)
      )
      .fold(why => throw new AttemptLost(why.why), _ => ())
    val epochs =
      if (world.defect == Defect.NotSpared) plan.baseMargin + 2
      else if (world.random.nextBoolean()) plan.baseMargin + 1
      else world.random.nextInt(plan.baseMargin.toInt + 4).toLong
    val due = world.invariants.last + epochs
    baton.yieldUntil(world.invariants.last >= due)
    val (bytes, placed) = segment.pack(Seq(base))
    root.put(ObjectKey(segment.name), bytes)
    if (world.invariants.last - run.epoch > plan.baseMargin) faults.count(Fault.LongUpload)
    tell(runId, Delivery(SealedFrame.Maintenance, Nil, placed))
    ()
  }

  private def answer[A](done: CompletableFuture[A]): A = {
    baton.yieldUntil(done.isDone || !driver.isAlive)
    if (!done.isDone) throw new Unreachable(s"${driver.name} has crashed")
    done.get()
  }

  /** The frame in an object, and what is to be done when that is told. */
  private def place(runId: String, frame: SealedFrame): (PlacedFrame, () => Unit) = {
    val epoch = frame.name.version.number - 1
    val of = identity(runId, epoch)
    if (world.defect != Defect.EarlyAck)
      (SegmentPacker.writeSegment(root, name, clock)(of, Seq(frame)).head, () => ())
    else {
      val id = StateVersion.newId(clock)
      val segment = new Segment(CutLayout.segment(epoch, name, id), of)
      val (bytes, placed) = segment.pack(Seq(frame))
      // In the background, and so behind what the task does next.
      def upload(): Unit = {
        baton.spawn("upload", this)(root.put(ObjectKey(segment.name), bytes))
        ()
      }
      (placed.head, () => upload())
    }
  }

  private def identity(runId: String, epoch: Long): SegmentIdentity = {
    val run = driver
      .ask(runId, "writer")(Believed.right[Refusal, RunId])(_.writer(runId))
      .fold(why => throw new AttemptLost(why.why), run => run)
    SegmentIdentity(epoch, name, runId, run.generation)
  }

  /** The rows of a channel, from where the driver says they are. */
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

  private def fromCut(store: StoreId, version: Long, id: String): Held = {
    val part = archive.cuts.read(version - 1).flatMap(_.of(store)).getOrElse {
      throw new AttemptLost(s"no cut has version $version of $store")
    }
    if (part.version.id != id) throw new AttemptLost(s"${part.version} instead of $id")
    held(part)
  }

  private def held(part: StoreCut): Held = {
    val frames = part.frames.toVector.map { case (_, _, place) => read(place) }
    Held(frames.flatMap(_.rows), frames.last.writer)
  }
}

private object SimExecutor {

  /** A version in memory, and the attempt that made it. */
  final case class Held(rows: Vector[Int], writer: String)
}
