package io.cleancut.coordinator.sim

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.CompletableFuture

import scala.util.Using
import scala.util.control.NonFatal

import org.apache.hadoop.fs.{FileAlreadyExistsException, FileStatus, Path, PathFilter}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.{
  CommitsView,
  CutCommits,
  OwnedLog,
  StartOfRun
}
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CommitEntries,
  DelegatedFiles
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.base.StoreId
import io.cleancut.coordinator.{HandedOver, QueryCoordinator}
import io.cleancut.coordinator.state.{Begun, Pipelining}
import io.cleancut.cutstore.CutArchive
import io.cleancut.error.CleancutException
import io.cleancut.format.cut.Cut
import io.cleancut.protocol.{EpochPlan, OffsetEntry}

/** A run that owns the query: a run of the query, or an operation on its checkpoint. */
trait OwningRun {
  def runId: String
  def isOver: Boolean

  /** Whether it owns the query and is about to read its logs. */
  def hasBegun: Boolean
  def failure: Option[Throwable]
}

/**
 * One run of the query with the steps of Spark's stream execution: it writes the offsets, has the
 * sink run its actions, and writes the commit. * * @param target last epoch that it runs, exclusive
 */
final class SimQuery(world: World, process: SimProcess, val runId: String, target: Long)
    extends OwningRun {
  import SimQuery._
  import world.{baton, faults, invariants, plan}

  private var isStarted = false
  private val ahead = new SimReadAhead(world, process)
  private val gate = new QueryCommitter {
    override def begin(): Option[Begun] = call("begin") { cuts =>
      ahead.beforeOwning()
      val begun = cuts.begin(runId)
      if (world.defect == Defect.EndedTooEarly) cuts.endRun(runId)
      begun
    }
    override def atStart(name: String)(operation: Begun => Unit): Unit =
      if (!isStarted) begin().foreach { begun =>
        isStarted = true
        operation(begun)
      }
    override def checkOwner(): Unit = process.call(runId, "check")(_.checkOwner(runId))
    override def plan(epoch: Long)(write: => Unit): CompletableFuture[Unit] =
      process.writeEntry(runId, epoch)(write)
    override def commit(epoch: Long, entry: String)(written: String => Unit): String =
      call("commit") { cuts =>
        if (isPipelined) cuts.pipeline(runId, Pipelining.at(epoch))
        cuts.enqueue(runId, epoch, entry, tasks) { counted =>
          if (faults.strikes(Fault.StoppedAfterCut, PerEpoch)) throw new Unreachable("stopped")
          written(counted)
          committed(epoch)
        }
      }.get
  }
  private val start = new StartOfRun(
    gate,
    Names.log("offsets"),
    if (world.defect == Defect.OperationsUnseen) new Unlisted(ahead.files("offsets"))
    else ahead.files("offsets"),
    begun => {
      ahead.beforeFence()
      if (plan.isOnFiles) begun.cut.foreach(rollForward)
      process.sweepAtStart(begun)
      if (invariants.hasIncompleteOperation) faults.count(Fault.StartAfterIncomplete)
    },
    process.clock,
    () => ahead.afterFence()
  )
  private val offsets = start.ofOffsets(ahead.files("offsets"))
  private val commits =
    SimQuery.commits(plan, ahead.files("commits"), process.archive, gate, () => ahead.end())
  // The last planned epoch in the log that has no commit.
  private var isPlanned = Option.empty[Long]
  private val drawn = plan.newRun(world.random)
  private val isPipelined = world.isPipelined()
  private var work: EpochWork = _
  private var ids = Map.empty[StoreId, String]

  // The last epoch of this run that another run has committed.
  private var lastAdopted = Option.empty[Long]
  private var isToStop = false
  private var isToPause = false
  private var isHandedOver = false
  private var hasEnded = false

  var failure = Option.empty[Throwable]
  private val actor = baton.spawn(runId, process)(run())

  override def hasBegun: Boolean = isStarted

  /** Ends the run between two epochs, as a user does before an operation on its checkpoint. */
  def stopsBetween(): Unit = isToPause = true

  /** Ends the run between two epochs, because its successor waits. */
  def handsOver(): Unit = {
    isHandedOver = true
    stopsBetween()
  }

  /** Ends the run after its sink has published the epoch. */
  def stopsAfterSink(): Unit = isToStop = true

  override def isOver: Boolean = actor.isFinished || !process.isAlive

  /** How the run ended. */
  def end: RunEnd = failure match {
    case _ if !hasEnded                      => RunEnd.Crashed
    case None if isHandedOver                => RunEnd.HandedOver
    case None if isToPause                   => RunEnd.StoppedBetween
    case None                                => RunEnd.AtTarget
    case Some(_: HandedOver)                 => RunEnd.HandedOver
    case Some(_: Unreachable)                => RunEnd.StoppedWithin
    case Some(e) if isOneOf(e, Fenced)       => RunEnd.Fenced
    case Some(e) if isIncompleteOperation(e) => RunEnd.Refused
    case Some(_)                             => RunEnd.Failed
  }

  private def call[A](what: String)(body: QueryCoordinator => A): Option[A] = {
    var answer = Option.empty[A]
    process.call(runId, what)(cuts => answer = Some(body(cuts)))
    answer
  }

  private def run(): Unit = {
    runEpochs()
    hasEnded = true
    process.endRun(runId)
  }

  private def runEpochs(): Unit =
    try {
      var epoch = firstEpoch()
      invariants.happened(s"$runId begins with epoch $epoch: $drawn, pipelined: $isPipelined")
      while (epoch < target && !isToPause) {
        runEpoch(epoch)
        if (world.pauses()) stopsBetween()
        epoch += 1
      }
      // Spark does so if no source has new rows.
      process.call(runId, "idle")(_.awaitWrites(runId))
    } catch {
      case NonFatal(e) =>
        failure = Some(e)
        invariants.happened(s"$runId ends with $e")
        if (isOneOf(e, Fenced)) {
          invariants.fenced += 1
          if (invariants.owner.contains(runId))
            invariants.violated(s"$runId was fenced, and no other run owns the query")
        }
        if (e.isInstanceOf[HandedOver] && !isToPause)
          invariants.violated(s"$runId failed with ${trace(e)} before it was stopped")
        if (!isExpected(e) && !isOfFirst(e))
          invariants.violated(s"$runId failed with ${trace(e)}")
    }

  private def rollForward(cut: Cut): Unit = if (entries.rollForward(cut)) {
    faults.count(Fault.RolledForward)
    invariants.happened(s"$runId rolls forward to epoch ${cut.epoch}")
  }

  /** The first epoch of the run, as Spark derives it from its logs. */
  private def firstEpoch(): Long = {
    val planned = latest(offsets, "offsets")
    if (invariants.isDrained(planned)) faults.count(Fault.Fence)
    val committed = latest(commits, "commits")
    committed.foreach { epoch =>
      val named = CommitIds.in(read(commits, Names.entry("commits", epoch)))
      val stores = invariants.cut(epoch).toSeq.flatMap(_.stores)
      ids = stores.collect { case s if named(s.version.id) => s.store -> s.version.id }.toMap
    }
    if (planned.exists(epoch => !committed.contains(epoch))) isPlanned = planned
    isPlanned.filter(_ > 0).foreach(requireBefore)
    planned match {
      case None                                     => 0L
      case Some(epoch) if committed.contains(epoch) => epoch + 1
      case Some(epoch)                              => epoch
    }
  }

  /** Spark requires the last two entries. No query may read those of an incomplete operation. */
  private def requireBefore(epoch: Long): Unit = {
    val isOfOperation = OffsetEntry.isOfOperation(read(offsets, Names.entry("offsets", epoch)))
    if (!offsets.exists(Names.entry("offsets", epoch - 1))) {
      if (!isOfOperation)
        invariants.violated(s"epoch $epoch is planned without the entry before it")
      throw new Unreachable(s"no entry before that of epoch $epoch")
    }
  }

  /** Of two runs that start a new query concurrently only one can plan its first epoch. */
  private def isOfFirst(e: Throwable) =
    isOneOf(e, EntryTaken) && invariants.last < plan.levelZeroEpochs

  private def runEpoch(epoch: Long): Unit = {
    val rows = (endOf(epoch - 1), planned(epoch))
    // Before the first cut no seal is an object, so all runs must read the same rows.
    val mark =
      if (plan.isUnsteady && epoch > plan.levelZeroEpochs) 1 + runId.hashCode.abs % 99 else 0
    work =
      EpochWork(runId, epoch, rows, if (plan.isFormat2) Some(ids) else None, mark, drawn.captures)
    val job = new SimJob(world, process, work, keeps = drawn.keepsRows)
    runSink(job, work)
    if (isToStop || world.endsAmid(epoch) || faults.strikes(Fault.StoppedBeforeCommit, PerEpoch))
      throw new Unreachable("stopped")
    commit(epoch, CommitIds.entry(if (plan.isFormat2) job.counted.values else Nil))
    if (plan.isFormat2) ids = job.counted.toMap
  }

  private def runSink(job: SimJob, work: EpochWork): Unit =
    if (drawn.sink == SinkKind.Staging) runStaging(job, work)
    else if (runActions(job, work)) {
      val emitted = plan.rowsOf(work.rows._1, work.rows._2) ++ job.emitted
      if (drawn.isSealing) invariants.checkShown(work.epoch)
      if (!world.sink.write(work.epoch, emitted)) {
        invariants.violated(s"the sink got other rows of epoch ${work.epoch}: $emitted")
      }
      if (world.defect == Defect.SealUnawaited && drawn.isSealing)
        process.call(runId, "seal")(_.seal(runId, work.epoch))
    } else {
      faults.count(Fault.SkippedSink)
      if (world.isLeftover(work.epoch)) faults.count(Fault.SkippedLeftover)
      invariants.happened(s"${work.runId} skips epoch ${work.epoch}")
    }

  private def runStaging(job: SimJob, work: EpochWork): Unit = {
    var output = Option.empty[String]
    process.call(runId, "sealed output")(cuts => output = cuts.sealedOutput(runId, work.epoch))
    var isFinished = false
    if (output.isDefined) {
      process.call(runId, "finish")(cuts => isFinished = cuts.finish(runId, work.epoch))
    }
    if (isFinished) faults.count(Fault.Finished)
    else process.call(runId, "hold")(_.hold(runId, work.epoch))
    job.runAll()
    val staged = s"$runId ${work.epoch}"
    world.sink.stage(staged, plan.rowsOf(work.rows._1, work.rows._2) ++ job.emitted)
    if (!isFinished) {
      faults.count(Fault.Seal)
      process.call(runId, "seal")(_.seal(runId, work.epoch, Some(staged)))
    }
    // The next run continues from the cut of another run, and finishes what this run has sealed.
    val factor = if (lastAdopted.contains(work.epoch - 1)) AfterAdopted else 3.0
    if (faults.strikes(Fault.StoppedAfterSeal, factor * PerEpoch) && world.mayStop(work.epoch))
      throw new Unreachable("stopped")
    val shown = if (world.defect == Defect.ShownAsMade) staged else output.getOrElse(staged)
    invariants.checkShown(work.epoch)
    if (!world.sink.show(work.epoch, shown)) {
      invariants.violated(s"the sink was to show other rows of epoch ${work.epoch}: $shown")
    }
  }

  /** Whether the sink does not skip the epoch. */
  private def runActions(job: SimJob, work: EpochWork): Boolean = {
    val hasSeen = world.sink.hasSeen(work.epoch)
    drawn.sink match {
      case SinkKind.Skipping | SinkKind.SealingOnce if hasSeen => false
      case SinkKind.Sealing | SinkKind.SealingOnce             =>
        sealActing(job, work)
        true
      case SinkKind.SealingLate =>
        if (world.random.nextBoolean()) job.runAll() else job.runSome()
        faults.count(Fault.SecondAction)
        sealActing(job, work)
        true
      case SinkKind.Peeking =>
        job.runSome()
        faults.count(Fault.PartialAction)
        if (!hasSeen) job.runAll()
        !hasSeen
      case SinkKind.Twice =>
        job.runAll()
        faults.count(Fault.SecondAction)
        job.runAll()
        true
      case _ =>
        job.runAll()
        true
    }
  }

  private def sealActing(job: SimJob, work: EpochWork): Unit = {
    process.call(runId, "hold")(_.hold(runId, work.epoch))
    job.runAll()
    faults.count(Fault.Seal)
    if (world.defect != Defect.NeverSealed && world.defect != Defect.SealUnawaited) {
      process.call(runId, "seal")(_.seal(runId, work.epoch))
    }
  }

  /** The end of the rows of an epoch: from the offset log, or planned now. */
  private def planned(epoch: Long): Int = {
    val path = Names.entry("offsets", epoch)
    if (isPlanned.contains(epoch)) endOf(epoch)
    else {
      val end = endOf(epoch - 1) + world.random.nextInt(plan.maxNew)
      if (offsets.exists(path)) throw new FileAlreadyExistsException(path.toString)
      write(offsets, path, Names.offsets(end))
      if (faults.strikes(Fault.StoppedAfterPlan, PerEpoch)) throw new Unreachable("stopped")
      if (world.defect == Defect.EndedBeforeEntry) process.awaitUnknownEntry()
      end
    }
  }

  private def endOf(epoch: Long): Int =
    if (epoch < 0) 0
    else read(offsets, Names.entry("offsets", epoch)).linesIterator.toSeq.last.toInt

  private def commit(epoch: Long, entry: String): Unit = {
    val path = Names.entry("commits", epoch)
    // A file may be another driver's, and Spark stops then. With a view the cut decides.
    val isThere = commits.exists(path)
    if (isThere && plan.isOnFiles) throw new FileAlreadyExistsException(path.toString)
    try {
      if (isThere) throw new FileAlreadyExistsException(path.toString)
      write(commits, path, entry)
      if (invariants.last < epoch) {
        faults.count(Fault.PipelinedCut)
        if (world.defect == Defect.EndedBeforeCut) process.endAnyway(runId)
      }
    } catch {
      case NonFatal(e) if e.isInstanceOf[FileAlreadyExistsException] || !isExpected(e) =>
        invariants.violated(s"$runId could not commit epoch $epoch: ${trace(e)}")
        throw e
    }
  }

  /** The epoch has a cut, and on a file system an entry of the commit log. */
  private def committed(epoch: Long): Unit = {
    val before = invariants.adopted
    invariants.committed(runId, epoch)
    if (invariants.adopted > before) {
      faults.count(Fault.Adopted)
      lastAdopted = Some(epoch)
    }
  }

  /** The plan for the commit. Without it, frames that a sink has lost are not written again. */
  private def tasks: Option[EpochPlan] =
    Option.unless(world.defect == Defect.NeverSealed)(new Tasks(work))

  /** The tasks that the commit runs. */
  private class Tasks(work: EpochWork) extends EpochPlan {
    override def stores: Set[StoreId] = plan.stores.toSet

    override def run(): Unit = {
      faults.count(Fault.PlanRun)
      invariants.ranInCommit(work.runId, work.epoch)
      new SimJob(world, process, work, keeps = false).runAll()
    }
  }

  private def entries = new CommitEntries(Names.log("commits"), process.files("commits"))
}

private object SimQuery {

  /** A factor for faults of epochs, which are less frequent than requests. */
  private val PerEpoch = 3.0
  private val AfterAdopted = 100.0
  private val Fenced = "CLEANCUT_FENCED"
  private val EntryTaken = "CLEANCUT_OFFSET_LOG_CONFLICT"
  private val Unfinished = "CLEANCUT_OPERATION_INCOMPLETE"
  private val Unavailable = "CLEANCUT_OBJECT_STORE_UNAVAILABLE"

  /** The commit log of a checkpoint on files or on an object store. */
  def commits(
      plan: SimPlan,
      files: CheckpointFileManager,
      archive: CutArchive,
      gate: QueryCommitter,
      committed: () => Unit = () => ()
  ): CheckpointFileManager = {
    val directory = Names.log("commits")
    if (plan.isOnFiles) {
      val entries = new CutCommits(directory, files, gate)
      new OwnedLog(directory, entries, () => gate.checkOwner(), () => ())
    } else new CommitsView(directory, files, archive, gate, committed)
  }

  private def latest(files: CheckpointFileManager, log: String): Option[Long] =
    files.list(Names.log(log)).flatMap(_.getPath.getName.toLongOption).maxOption

  def read(files: CheckpointFileManager, path: Path): String =
    Using.resource(files.open(path))(in => new String(in.readAllBytes(), UTF_8))

  def write(files: CheckpointFileManager, path: Path, text: String): Unit = {
    val out = files.createAtomic(path, overwriteIfPossible = false)
    out.write(text.getBytes(UTF_8))
    out.close()
  }

  /** Whether a query may end with this error while faults are injected. */
  def isExpected(e: Throwable): Boolean = e match {
    case _: AttemptLost | _: Unreachable | _: HandedOver => true
    case other => isOneOf(other, Fenced, Unavailable, Unfinished)
  }

  /** Whether a request has failed that may still take effect. */
  def isUnavailable(e: Throwable): Boolean = isOneOf(e, Unavailable)

  /** Whether a query ended because an operation is incomplete. */
  def isIncompleteOperation(e: Throwable): Boolean = isOneOf(e, Unfinished)

  private def isOneOf(e: Throwable, ids: String*): Boolean = e match {
    case cleancut: CleancutException => ids.contains(cleancut.getErrorId)
    case _                           => false
  }

  def trace(e: Throwable): String =
    (e.toString +: e.getStackTrace.toSeq.filter(_.getClassName.startsWith("io.cleancut")).take(6))
      .mkString("\n      ")
}

/** A log that lists no entries. */
final private class Unlisted(files: CheckpointFileManager) extends DelegatedFiles(files) {
  override def list(path: Path, filter: PathFilter): Array[FileStatus] = Array.empty
}
