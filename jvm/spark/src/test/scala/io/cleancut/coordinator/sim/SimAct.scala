package io.cleancut.coordinator.sim

import java.io.FileNotFoundException

import scala.util.Random
import scala.util.control.NonFatal

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.coordinator.InFlightSource
import io.cleancut.coordinator.state.{TaskStart, TaskStarted}
import io.cleancut.cutstore.StoredCut
import io.cleancut.format.{FrameKind, FrameName}
import io.cleancut.format.cut.{ChannelReport, Cut, SealedFrame}
import io.cleancut.objectstore.ObjectKey
import io.cleancut.protocol.{OffsetEntry, Refusal}

/**
 * An act on the checkpoint, as an offline epoch does it: it looks where the query stands, owns it,
 * makes all of its state and its rows in flight anew behind a number that stays unused, or has its
 * stores refer to what is there, or was there after an earlier epoch; and writes the entries of
 * both logs.
 *
 * @param random
 *   for where it stops, if it may
 * @param stall
 *   the garbage collection whose cuts it refers to
 */
final class SimAct(
    world: World,
    process: SimProcess,
    val runId: String,
    random: Option[Random],
    stall: Option[SweepStall]
) extends SimRunning {
  import SimAct._
  import world.{baton, defect, faults, invariants, plan}

  override val hasBegun = false
  var failure = Option.empty[Throwable]

  // Drawn by nothing but its name and the seed, so that all else stays as it is.
  private val ofName = World.randomOf(world.seed, runId)
  private val isReferring =
    Defect.ofReferences(defect) || stall.isDefined || runId.hashCode % 2 == 0
  private val wantsBack = isReferring && (stall.isDefined || ofName.nextBoolean())
  private var isBack = wantsBack
  private var hasFound = false
  private var hasOwned = false

  /** Whether the garbage collection can go on. */
  def hasMet(stall: SweepStall): Boolean = if (stall.isFirst) hasFound else hasOwned

  private val offsets = process.files("offsets")
  private val gate = new GateOfNoQuery {
    override def checkOwner(): Unit = process.call(runId, "look")(_.checkOwner(runId))
    override def commit(epoch: Long, entry: String): String = {
      var counted = ""
      process.call(runId, "commit")(cuts => counted = cuts.commit(runId, epoch, entry, None))
      if (faults.strikes(Fault.StoppedBehindCut, PerAct)) throw new Unreachable("stopped")
      counted
    }
  }
  private val commits = SimQuery.commits(plan, process.files("commits"), process.archive, gate)

  private val actor = baton.spawn(runId, process)(run())

  override def isOver: Boolean = actor.isFinished || !process.isAlive

  private def run(): Unit = {
    try act()
    catch {
      case e: FileNotFoundException =>
        invariants.happened(s"$runId finds that an entry is gone: ${e.getMessage}")
      case refused: Refused =>
        faults.count(Fault.ActRefused)
        invariants.happened(s"$runId is refused: ${refused.getMessage}")
      case NonFatal(e) =>
        failure = Some(e)
        invariants.happened(s"$runId ends with $e")
        if (!SimQuery.isExpected(e)) invariants.violated(s"$runId failed with ${SimQuery.trace(e)}")
    }
    process.endRun(runId)
  }

  private def act(): Unit = {
    val last = process.archive.cuts.last().map(_.head.epoch).getOrElse(refuse("there is no cut"))
    val entered = if (plan.isOnFiles) epochsIn("commits").maxOption else Some(last)
    if (!entered.contains(last)) refuse(s"epoch $last has no entry")
    val left = epochsIn("offsets").filter(_ > last)
    val (ofActs, begun) =
      left.partition(epoch => OffsetEntry.isOfOperation(entry("offsets", epoch)))
    // Who goes back leaves that behind, and has to where another such act was not done.
    isBack = wantsBack || (begun.nonEmpty && ofActs.nonEmpty)
    if (begun.nonEmpty && !isBack) refuse(s"epoch ${begun.max} has been begun")
    val source = if (wantsBack) earlier(last, left) else Source(last, None)
    val looked = found(source).getOrElse(refuse(s"there is no $source"))
    val early = if (defect == Defect.SourceUnchecked) Some(looked.whole) else None
    // The query may go on meanwhile.
    hasFound = true
    baton.yieldUntil(stall.forall(of => !of.isFirst || of.isOver))
    own(last)
    // A sweep that has taken it has gone before.
    val cut = early.getOrElse {
      val still = found(source).filter(_.head.token == looked.head.token)
      still.getOrElse(refuse(s"$source is not there any more")).whole
    }
    hasOwned = true
    if (ofActs.nonEmpty) faults.count(Fault.ActBehindAct)
    // The other act may be about to write its cut, which comes before this one then.
    rewrite(cut, last, (last +: left).max + 2)
  }

  /** A cut before the last, a savepoint, or the last where something has been begun after it. */
  private def earlier(last: Long, left: Seq[Long]): Source = {
    def isOne(epoch: Long) = epoch < last || left.nonEmpty
    val cuts = process.archive.cuts.epochs().filterNot(invariants.late).map(Source(_, None))
    val pins = process.archive.savepoints.all().toSeq.sortBy(_._1).map { case (name, cut) =>
      Source(cut.head.epoch, Some(name))
    }
    val found = (cuts ++ pins).filter(of => isOne(of.epoch))
    val due = found.filter(of => of.pin.isEmpty && stall.exists(_.epochs(of.epoch)))
    val all = if (due.isEmpty) found else due
    if (all.isEmpty) refuse("there is nothing to go back to")
    all(ofName.nextInt(all.size))
  }

  private def found(source: Source): Option[StoredCut] =
    source.pin.fold(process.archive.cuts.open(source.epoch))(process.archive.savepoints.open(_))

  private def own(last: Long): Unit = {
    var committed = -1L
    process.call(runId, "begin")(cuts => committed = cuts.begin(runId).committed)
    if (committed != last) refuse(s"epoch $committed has been committed meanwhile")
  }

  private def refuse(why: String): Nothing = throw new Refused(why)

  private def rewrite(cut: Cut, last: Long, epoch: Long): Unit = {
    invariants.happened(s"$runId makes epoch $epoch of the cut of epoch ${cut.epoch}")
    val taken = Option.unless(defect == Defect.ActForgets)(new Taken(cut))
    if (cut.inFlight.nonEmpty) faults.count(Fault.ActInFlight)
    process.call(runId, "replace")(_.replace(runId, epoch, plan.stores.toSet, taken))
    val made =
      if (isReferring) referred(cut, epoch)
      else plan.stages.flatten.flatMap(task => retried(task, cut, epoch)).toMap
    process.call(runId, "settle")(_.settle(runId, epoch))
    process.call(runId, "look at what is settled") { cuts =>
      // The question names no run: a later one of this driver would answer it.
      if (!cuts.status.run.exists(_.runId == runId)) throw new Unreachable("followed")
      made.foreach { case (store, id) =>
        val found = cuts.accepted(store, epoch + 1)
        if (!found.contains(id)) invariants.violated(s"$runId finds $found of $store, and not $id")
      }
    }
    val end = Invariants.endIn(cut.offsets.getBytes)
    val planned =
      Names.offsetsOfAct(end, unused = epoch - 1, cut.epoch, Option.when(isBack)(last))
    if (world.mayLeave(epoch)) {
      faults.count(Fault.ActLeft)
      throw new Unreachable("stopped")
    }
    enter(epoch, planned)
    mayStop()
    // Of the first of them a query that lives would have its next epoch.
    (Option.unless(isBack)(last + 1).toSeq :+ (epoch - 1)).distinct.foreach { number =>
      try if (!isOfOperation(number)) enter(number, planned)
      catch {
        case refused: Refused =>
          process.store.delete(Seq(ObjectKey(s"${Names.Checkpoint}offsets/$epoch")))
          throw refused
      }
    }
    mayStop()
    val ids = if (plan.isFormat2) made.values else Nil
    val path = Names.entry("commits", epoch)
    if (commits.exists(path)) refuse(s"epoch $epoch is committed")
    SimQuery.write(commits, path, CommitIds.entry(ids))
    invariants.committed(runId, epoch)
    if (invariants.cut(epoch).exists(_.run.runId != runId)) {
      invariants.violated(s"$runId was told that it has made epoch $epoch, which another has")
    }
    faults.count(Fault.Act)
    if (isBack) faults.count(Fault.ActBack)
  }

  /** Makes all stores of what the cut has. */
  private def referred(cut: Cut, epoch: Long): Map[StoreId, String] = {
    val frames = plan.stores.map { store =>
      val version = StateVersion(epoch + 1, StateVersion.newId(process.clock))
      val name = FrameName(store, version, FrameKind.Base)
      SimFrame(name, None, writer, Vector.empty, cut.of(store).get.frames)
    }
    val chains = plan.stores.flatMap(cut.of)
    val deep =
      chains.flatMap(_.base).exists(of => cut.referred.exists(_.version == of._1.version.number))
    if (deep) faults.count(Fault.ActBehindReference)
    val segments =
      if (defect == Defect.ReferredOnce) chains.flatMap(_.frames.map(_._3.segment)).toSet
      else cut.reachedFrom(chains)
    val bases = frames.map(of => SealedFrame(of.name, 0L, of.toBytes))
    val deltas = frames.flatMap(deltaOf).map(of => SealedFrame(of.name, 0L, of.toBytes))
    process.call(runId, "refer")(_.refer(runId, epoch, deltas ++ bases, segments))
    faults.count(Fault.ActByReference)
    frames.map(of => of.name.store -> of.name.version.id).toMap
  }

  private def mayStop(): Unit = if (random.exists(_.nextInt(StopsEvery) == 0)) {
    faults.count(Fault.ActStopped)
    throw new Unreachable("stopped")
  }

  private def isOfOperation(epoch: Long) =
    offsets.exists(Names.entry("offsets", epoch)) && OffsetEntry.isOfOperation(
      entry("offsets", epoch)
    )

  private def enter(epoch: Long, planned: String): Unit = {
    gate.checkOwner()
    val path = Names.entry("offsets", epoch)
    if (offsets.exists(path)) refuse(s"somebody else has planned epoch $epoch")
    try SimQuery.write(offsets, path, planned)
    catch {
      case _: org.apache.hadoop.fs.FileAlreadyExistsException =>
        refuse(s"somebody else has planned epoch $epoch")
    }
  }

  /** Writes the stores of a task, as often as it takes. */
  private def retried(task: SimTask, cut: Cut, epoch: Long): Map[StoreId, String] = {
    val tries = Iterator.continually(attempt(task, cut, epoch)).take(SimJob.MaxAttempts)
    tries.flatten.nextOption().getOrElse(throw new AttemptLost(s"$task of $runId failed"))
  }

  private def attempt(task: SimTask, cut: Cut, epoch: Long): Option[Map[StoreId, String]] = {
    val executor = process.executors(world.random.nextInt(process.executors.size))
    val id = world.nextAttempt()
    var made = Option.empty[Map[StoreId, String]]
    val running = baton.spawn(s"attempt $id of $runId", executor) {
      try {
        tell(TaskStart(id, task.operator, task.partition, epoch, task.stores))
        made = Some(task.stores.map(store => store -> write(store, id, executor, cut, epoch)).toMap)
      } catch {
        case NonFatal(_) => executor.driver.tell(s"failure of $id")(_.fail(runId, id))
      }
    }
    baton.yieldUntil(running.isFinished || !executor.isAlive)
    made
  }

  private def write(
      store: StoreId,
      attempt: Long,
      executor: SimExecutor,
      cut: Cut,
      epoch: Long
  ): String = {
    if (faults.strikes(Fault.AttemptFailed)) throw new AttemptLost("the task's code failed")
    val read = cut.of(store).map(_.version.id)
    val rows = executor.load(store, cut.epoch + 1, read)
    val version = StateVersion(epoch + 1, StateVersion.newId(process.clock))
    val base = SimFrame(FrameName(store, version, FrameKind.Base), None, writer, rows)
    executor.deliver(runId, attempt, deltaOf(base).toSeq :+ base)
    version.id
  }

  /** What only a task of a query writes next to its base. */
  private def deltaOf(base: SimFrame): Option[SimFrame] =
    Option.when(defect == Defect.ActAsTasks) {
      base.copy(name = base.name.copy(kind = FrameKind.Delta), rows = Vector.empty, source = Nil)
    }

  private def tell(start: TaskStart): TaskStarted = process
    .ask(runId, "start")(Believed.right[Refusal, TaskStarted])(_.start(runId, start))
    .fold(why => throw new AttemptLost(why.why), identity)

  private def writer = s"$runId/act"

  private def epochsIn(log: String): Seq[Long] =
    process.files(log).list(Names.log(log)).toSeq.flatMap(_.getPath.getName.toLongOption)

  private def entry(log: String, epoch: Long): String =
    SimQuery.read(process.files(log), Names.entry(log, epoch))

  /** The rows in flight of a cut, in frames of another version. */
  final private class Taken(cut: Cut) extends InFlightSource {
    override def isEmpty: Boolean = cut.inFlight.isEmpty

    override def frames(version: Long, clock: Clock): (Seq[SealedFrame], Seq[ChannelReport]) = {
      val executor = process.executors.head
      val frames = cut.inFlight.map { channel =>
        val name =
          FrameName(channel.store, StateVersion(version, StateVersion.newId(clock)), FrameKind.Base)
        val (_, _, place) = channel.frames.last
        val frame = SimFrame(name, None, writer, executor.read(place).rows)
        SealedFrame(name, NoTask, frame.toBytes)
      }
      (frames, cut.channels)
    }
  }
}

private object SimAct {

  /** What it is made of: the cut of an epoch, or a savepoint of one. */
  final case class Source(epoch: Long, pin: Option[String]) {
    override def toString: String = pin.fold(s"cut of epoch $epoch")(name => s"savepoint $name")
  }

  /** It does not do what it was asked for, and has changed nothing. */
  final class Refused(message: String) extends RuntimeException(message)

  private val PerAct = 3.0
  private val StopsEvery = 4
  private val NoTask = -1L
}
