package io.cleancut.coordinator.sim

import java.io.FileNotFoundException

import scala.collection.mutable
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
 * An operation on the checkpoint that writes an offline epoch. It reads the last epoch, owns the
 * query, and skips one epoch. Then it copies state and in-flight rows, or has its bases refer to
 * the frames of the last or an earlier cut, and writes the entries of both logs.
 *
 * @param random
 *   random numbers for an early stop, if the operation may stop
 * @param stall
 *   garbage collection whose cuts it refers to
 */
final class SimOperation(
    world: World,
    process: SimProcess,
    val runId: String,
    random: Option[Random],
    stall: Option[SweepStall]
) extends OwningRun {
  import SimOperation._
  import world.{baton, defect, faults, invariants, plan}

  override val hasBegun = false
  var failure = Option.empty[Throwable]

  // Drawn from its name and the seed only, so that other draws do not change.
  private val ofName = World.randomOf(world.seed, runId)
  private val isByReference =
    Defect.ofReferences(defect) || stall.isDefined || runId.hashCode % 2 == 0
  private val wantsRollback = isByReference && (stall.isDefined || ofName.nextBoolean())
  private var isRollback = wantsRollback
  private var hasSource = false
  private var hasOwned = false

  /** Whether the garbage collection can continue. */
  def hasMet(stall: SweepStall): Boolean = if (stall.isFirst) hasSource else hasOwned

  private val offsets = process.files("offsets")
  private val gate = new GateOfNoQuery {
    override def checkOwner(): Unit = process.call(runId, "check")(_.checkOwner(runId))
    override def commit(epoch: Long, entry: String)(written: String => Unit): String = {
      var counted = ""
      process.call(runId, "commit")(cuts => counted = cuts.commit(runId, epoch, entry, None))
      if (faults.strikes(Fault.StoppedAfterCut, PerOperation)) throw new Unreachable("stopped")
      written(counted)
      counted
    }
  }
  // The versions of all attempts.
  private val written = mutable.Map.empty[StoreId, Set[String]]
  private val commits = SimQuery.commits(plan, process.files("commits"), process.archive, gate)

  private val actor = baton.spawn(runId, process)(run())

  override def isOver: Boolean = actor.isFinished || !process.isAlive

  private def run(): Unit = {
    try execute()
    catch {
      case e: FileNotFoundException =>
        invariants.happened(s"$runId finds a deleted entry: ${e.getMessage}")
      case refused: Refused =>
        faults.count(Fault.OperationRefused)
        invariants.happened(s"$runId is refused: ${refused.getMessage}")
      case NonFatal(e) =>
        failure = Some(e)
        invariants.happened(s"$runId ends with $e")
        if (!SimQuery.isExpected(e)) invariants.violated(s"$runId failed with ${SimQuery.trace(e)}")
    }
    process.endRun(runId)
  }

  private def execute(): Unit = {
    val last = process.archive.cuts.last().map(_.head.epoch).getOrElse(refuse("there is no cut"))
    val entered = if (plan.isOnFiles) epochsIn("commits").maxOption else Some(last)
    if (!entered.contains(last)) refuse(s"epoch $last has no entry")
    val left = epochsIn("offsets").filter(_ > last)
    val (incomplete, begun) =
      left.partition(epoch => OffsetEntry.isOfOperation(entry("offsets", epoch)))
    // A rollback skips these epochs, and is required after an incomplete rollback.
    isRollback = wantsRollback || (begun.nonEmpty && incomplete.nonEmpty)
    if (begun.nonEmpty && !isRollback) refuse(s"epoch ${begun.max} has been begun")
    val source = if (wantsRollback) earlier(last, left) else Source(last, None)
    val candidate = find(source).getOrElse(refuse(s"there is no $source"))
    val early = if (defect == Defect.SourceUnchecked) Some(candidate.whole) else None
    // The query may continue concurrently.
    hasSource = true
    baton.yieldUntil(stall.forall(one => !one.isFirst || one.isOver))
    own(last)
    // A garbage collection that has deleted the source has ended before.
    val cut = early.getOrElse {
      val current = find(source).filter(_.head.token == candidate.head.token)
      current.getOrElse(refuse(s"$source was deleted")).whole
    }
    hasOwned = true
    if (incomplete.nonEmpty) faults.count(Fault.OperationAfterIncomplete)
    // The other operation may be about to write its cut, which then precedes this cut.
    rewrite(cut, last, (last +: left).max + 2)
  }

  /** A cut before the last one, a savepoint, or the last cut if an epoch has begun after it. */
  private def earlier(last: Long, left: Seq[Long]): Source = {
    def isOne(epoch: Long) = epoch < last || left.nonEmpty
    val cuts = process.archive.cuts.epochs().filterNot(invariants.late).map(Source(_, None))
    val pins = process.archive.savepoints.all().toSeq.sortBy(_._1).map { case (name, cut) =>
      Source(cut.head.epoch, Some(name))
    }
    val sources = (cuts ++ pins).filter(source => isOne(source.epoch))
    val due =
      sources.filter(source => source.pin.isEmpty && stall.exists(_.epochs(source.epoch)))
    val all = if (due.isEmpty) sources else due
    if (all.isEmpty) refuse("there is no earlier state to roll back to")
    all(ofName.nextInt(all.size))
  }

  private def find(source: Source): Option[StoredCut] =
    source.pin.fold(process.archive.cuts.open(source.epoch))(process.archive.savepoints.open(_))

  private def own(last: Long): Unit = {
    var committed = -1L
    process.call(runId, "begin")(cuts => committed = cuts.begin(runId).committed)
    if (committed != last) refuse(s"epoch $committed has been committed concurrently")
  }

  private def refuse(reason: String): Nothing = throw new Refused(reason)

  private def rewrite(cut: Cut, last: Long, epoch: Long): Unit = {
    invariants.happened(s"$runId makes epoch $epoch of the cut of epoch ${cut.epoch}")
    val inFlight = Option.unless(defect == Defect.OperationForgets)(new CopiedRows(cut))
    if (cut.inFlight.nonEmpty) faults.count(Fault.OperationInFlight)
    process.call(runId, "replace")(_.replace(runId, epoch, plan.stores.toSet, inFlight))
    val made =
      if (isByReference) referred(cut, epoch)
      else plan.stages.flatten.flatMap(task => retried(task, cut, epoch)).toMap
    process.call(runId, "settle")(_.settle(runId, epoch))
    process.call(runId, "read settled versions") { cuts =>
      // The request names no run, so a later run of this driver could answer it.
      if (!cuts.status.run.exists(_.runId == runId)) throw new Unreachable("fenced")
      made.keys.foreach { store =>
        val accepted = cuts.accepted(store, epoch + 1)
        // The attempt whose report came last counts, perhaps that of a crashed executor.
        if (!accepted.exists(written(store)))
          invariants.violated(s"$runId finds $accepted of $store, and not ${written(store)}")
      }
    }
    val end = Invariants.endIn(cut.offsets.getBytes)
    val planned =
      Names.offsetsOfOperation(end, unused = epoch - 1, cut.epoch, Option.when(isRollback)(last))
    if (world.mayLeave(epoch)) {
      faults.count(Fault.OperationKilled)
      throw new Unreachable("stopped")
    }
    enter(epoch, planned)
    mayStop()
    // A live query plans its next epoch under the first of these numbers.
    (Option.unless(isRollback)(last + 1).toSeq :+ (epoch - 1)).distinct.foreach { number =>
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
      invariants.violated(s"$runId received the commit of epoch $epoch of another run")
    }
    faults.count(Fault.Operation)
    if (isRollback) faults.count(Fault.Rollback)
  }

  /** Writes bases of all stores that refer to the frames of the cut. */
  private def referred(cut: Cut, epoch: Long): Map[StoreId, String] = {
    val frames = plan.stores.map { store =>
      val version = newVersion(store, epoch)
      val name = FrameName(store, version, FrameKind.Base)
      SimFrame(name, None, writer, Vector.empty, cut.of(store).get.frames)
    }
    val chains = plan.stores.flatMap(cut.of)
    val deep =
      chains
        .flatMap(_.base)
        .exists(base => cut.referred.exists(_.version == base._1.version.number))
    if (deep) faults.count(Fault.OperationOnReferences)
    val segments =
      if (defect == Defect.ReferredOnce) chains.flatMap(_.frames.map(_._3.segment)).toSet
      else cut.reachedFrom(chains)
    def seal(frame: SimFrame) = SealedFrame(frame.name, 0L, frame.toBytes)
    val bases = frames.map(seal)
    val deltas = frames.flatMap(deltaOf).map(seal)
    process.call(runId, "refer")(_.refer(runId, epoch, deltas ++ bases, segments))
    faults.count(Fault.OperationByReference)
    frames.map(frame => frame.name.store -> frame.name.version.id).toMap
  }

  private def mayStop(): Unit = if (random.exists(_.nextInt(StopsEvery) == 0)) {
    faults.count(Fault.OperationStopped)
    throw new Unreachable("stopped")
  }

  private def isOfOperation(epoch: Long) =
    offsets.exists(Names.entry("offsets", epoch)) && OffsetEntry.isOfOperation(
      entry("offsets", epoch)
    )

  private def enter(epoch: Long, planned: String): Unit = {
    gate.checkOwner()
    val path = Names.entry("offsets", epoch)
    if (offsets.exists(path)) refuse(s"another run has planned epoch $epoch")
    try SimQuery.write(offsets, path, planned)
    catch {
      case _: org.apache.hadoop.fs.FileAlreadyExistsException =>
        refuse(s"another run has planned epoch $epoch")
    }
  }

  /** Writes the stores of a task, with retries. */
  private def retried(task: SimTask, cut: Cut, epoch: Long): Map[StoreId, String] = {
    val attempts = Iterator.continually(attempt(task, cut, epoch)).take(SimJob.MaxAttempts)
    attempts.flatten.nextOption().getOrElse(throw new AttemptLost(s"$task of $runId failed"))
  }

  private def attempt(task: SimTask, cut: Cut, epoch: Long): Option[Map[StoreId, String]] = {
    val executor = process.executors(world.random.nextInt(process.executors.size))
    val id = world.nextAttempt()
    var made = Option.empty[Map[StoreId, String]]
    val running = baton.spawn(s"attempt $id of $runId", executor) {
      try {
        register(TaskStart(id, task.operator, task.partition, epoch, task.stores))
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
    val rows = executor.load(runId, store, cut.epoch + 1, read)
    val version = newVersion(store, epoch)
    val base = SimFrame(FrameName(store, version, FrameKind.Base), None, writer, rows)
    executor.deliver(runId, attempt, deltaOf(base).toSeq :+ base)
    version.id
  }

  private def newVersion(store: StoreId, epoch: Long): StateVersion = {
    val version = StateVersion(epoch + 1, StateVersion.newId(process.clock))
    written(store) = written.getOrElse(store, Set.empty) + version.id
    version
  }

  /** A delta next to a base, which only a task of a query writes. */
  private def deltaOf(base: SimFrame): Option[SimFrame] =
    Option.when(defect == Defect.OperationAsTasks) {
      base.copy(name = base.name.copy(kind = FrameKind.Delta), rows = Vector.empty, source = Nil)
    }

  private def register(start: TaskStart): TaskStarted = process
    .ask(runId, "start")(AcceptedResponses.right[Refusal, TaskStarted])(_.start(runId, start))
    .fold(refusal => throw new AttemptLost(refusal.why), identity)

  private def writer = s"$runId/act"

  private def epochsIn(log: String): Seq[Long] =
    process.files(log).list(Names.log(log)).toSeq.flatMap(_.getPath.getName.toLongOption)

  private def entry(log: String, epoch: Long): String =
    SimQuery.read(process.files(log), Names.entry(log, epoch))

  /** The in-flight rows of a cut, in frames of another version. */
  final private class CopiedRows(cut: Cut) extends InFlightSource {
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

private object SimOperation {

  /** The source of an operation: the cut of an epoch, or a savepoint. */
  final case class Source(epoch: Long, pin: Option[String]) {
    override def toString: String = pin.fold(s"cut of epoch $epoch")(name => s"savepoint $name")
  }

  /** The refusal of an operation that has changed nothing. */
  final class Refused(message: String) extends RuntimeException(message)

  private val PerOperation = 3.0
  private val StopsEvery = 4
  private val NoTask = -1L
}
