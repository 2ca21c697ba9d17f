package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.slf4j.LoggerFactory

import io.cleancut.base.StateVersion
import io.cleancut.coordinator.state.{CommittedEpoch, QueryRun}
import io.cleancut.cutstore.{NotesWatch, StoredCut}
import io.cleancut.cutstore.usage.UsageBook
import io.cleancut.format.cut.Cut
import io.cleancut.history.{EpochRecord, EpochTasks, TriggerTimes}
import io.cleancut.protocol.{CommitEntry, EpochPlan}

/**
 * Commits epochs by the conditional write of their cuts. When [[commit]] returns, the epoch has
 * exactly one cut, and all that the cut references is durable. For one thread of a run at a time;
 * requests are made without the lock of the [[RunRegistry]].
 */
final private[coordinator] class EpochCommitter(
    runs: RunRegistry,
    frames: FrameCollector,
    stores: EpochStores,
    sources: CommitSources,
    pages: CutPages,
    maintenance: CutMaintenance,
    notes: NotesWatch
) {
  import EpochCommitter._
  import runs.{archive, clock, logs, runtime}

  private var committed = Option.empty[CommittedEpoch]

  /** The last epoch that this coordinator has committed. Callers hold the lock of the runs. */
  def last: Option[CommittedEpoch] = committed

  /**
   * Commits an epoch: waits for its frames and writes the cut.
   *
   * @param entry
   *   Spark's entry for the commit log
   * @param plan
   *   the epoch's tasks, if they can be run here; evaluated only if some have not run
   * @return
   *   the entry of the epoch's cut, which an earlier run may have written
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE: the epoch is not committed. CLEANCUT_FENCED
   */
  def commit(
      runId: String,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan]
  ): String = {
    val (run, begin) = open(runId, epoch)
    commit(run, epoch, entry, plan, begin)
  }

  /**
   * Same as [[commit]], but returns before the cut exists if the run has sealed the epoch (rule
   * Q1). The writer of the run then writes the cut. Until it has, no frame of the next epoch is
   * durable, and the next epoch is neither sealed nor planned by an entry.
   *
   * @param written
   *   called with the entry of the cut when the cut exists
   * @return
   *   the entry that the cut has, or will have
   */
  def enqueue(runId: String, epoch: Long, entry: String, plan: => Option[EpochPlan])(
      written: String => Unit
  ): String = {
    val (run, begin) = open(runId, epoch)
    if (runs.locked(run.mayCommitLater(epoch))) {
      writeLater(run, assembled(run, epoch, entry, plan, begin))(written)
      entry
    } else {
      val counted = commit(run, epoch, entry, plan, begin)
      written(counted)
      runs.handover.stop(run)
      counted
    }
  }

  /** The run, whose epoch is not committed, and whose earlier writes are done. */
  private def open(runId: String, epoch: Long): (QueryRun, Begin) = {
    val begin = Begin(clock.monotonicNs(), runtime.watcher.flatMap(_.trigger(epoch)))
    val run = runs.requireOwner(runId, epoch)
    runs.checkOpen(run, epoch)
    run.writer.await()
    // A sink may return without a seal.
    frames.flush(run, epoch)
    (run, begin)
  }

  private def commit(
      run: QueryRun,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan],
      begin: Begin
  ): String = {
    val late = lateCut(run, epoch, entry).map(Committed(_, None))
    val committed = late.getOrElse(ownCut(run, assembled(run, epoch, entry, plan, begin)))
    complete(run, committed)
    committed.counted.commit
  }

  /** The steps after the cut exists, before an entry may plan the next epoch. */
  private def complete(run: QueryRun, committed: Committed): Unit = {
    val epoch = committed.counted.epoch
    val cutNs = clock.monotonicNs()
    // Before an entry plans the next epoch: either a later owner has seen the cut, or this check
    // finds the later owner.
    try runs.checkOwner(run, epoch + 1)
    finally committed.report.foreach(onCommitted(run, _, clock.monotonicNs() - cutNs))
    run.lookedNs = Some(clock.monotonicNs())
    maintenance.afterCommit(run, epoch)
  }

  /** The next epoch begins, and continues from the cut that is being written. */
  private def writeLater(run: QueryRun, made: Assembled)(written: String => Unit): Unit = {
    import made.cut
    val (tasks, aligned) = runs.locked {
      run.decide(cut)
      (run.meter.advance(made.used, writeNs = 0L), run.reasons.aligned)
    }
    run.writer.begin {
      // The run has written the cut before, so no earlier run can write this one (rule Q2).
      if (!create(run, cut)) throw runs.committedBy(cut.epoch, archive.cuts.head(cut.epoch))
      run.collector.committed(cut.epoch)
      val writeNs = clock.monotonicNs() - made.readyNs
      val cutMs = TimeUnit.NANOSECONDS.toMillis(writeNs)
      runs.locked {
        run.wroteCut()
        run.meter.recordCut(writeNs)
        committed = Some(CommittedEpoch(cut, cutMs))
      }
      logCommitted(made)
      val stored = run.stored.map(_.now(made.used, archive))
      complete(run, Committed(cut, Some(Report(cut, cutMs, tasks, aligned, stored))))
      written(cut.commit)
      // The entry of the next epoch, which is the next write, must not follow.
      runs.handover.refuseNext(run)
    }
    ()
  }

  private def logCommitted(made: Assembled): Unit = logger.info(
    s"Committed epoch ${made.cut.epoch} of ${archive.location}: ${made.cut.stores.size} stores, " +
      s"commit took ${msSince(made.begin.atNs)} ms"
  )

  /**
   * The cut of an earlier run that was written after this run had begun, if frames of this run are
   * missing because its sink skipped output that the other run had published.
   */
  private def lateCut(run: QueryRun, epoch: Long, entry: String): Option[Cut] = {
    // If Spark counts versions, all tasks of this run have committed theirs.
    def mayLack = runs.locked(run.at(epoch).isFirst && run.at(epoch).finishing.isEmpty) &&
      CommitEntry.countedIds(entry).isEmpty
    val isLateCutPossible = !run.begun.isAlone && mayLack && stores.closed(run, epoch, None).isLeft
    val late =
      if (isLateCutPossible)
        archive.cuts.open(epoch).filter(stored => isEarlier(run, stored.head)).map(_.whole)
      else None
    late.foreach { cut =>
      logger.info(s"Epoch $epoch of ${archive.location} was committed by run ${cut.run.runId}")
      run.collector.committed(epoch)
      runs.locked(run.advance(cut))
    }
    late
  }

  /**
   * Both runs used the same offsets and the same decisions. Two offline operations however produce
   * different state.
   */
  private def isEarlier(run: QueryRun, cut: Cut): Boolean =
    !runs.locked(
      run.ledger.operation.isDefined
    ) && cut.run.generation < run.id.generation && cut.offsets == logs.offsets(cut.epoch)

  /** The cut of this run's frames, before it is written. */
  private def assembled(
      run: QueryRun,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan],
      begin: Begin
  ): Assembled = {
    val start = begin.atNs
    val chains = sources.find(run, epoch, entry, plan)
    val collectedNs = clock.monotonicNs()
    if (!runs.locked(run.at(epoch).isSealed)) runs.checkOwnerUnless(run, epoch, CutLookNs)
    val ownedNs = clock.monotonicNs()
    val offsets = logs.offsets(epoch)
    val readyNs = clock.monotonicNs()
    val used = runs.usage()
    val parts = Seq("collectMs" -> collectedNs, "ownerMs" -> ownedNs, "offsetsMs" -> readyNs)
    val (timings, costs) =
      runs.locked((run.meter.timings(start, parts, begin.trigger), run.meter.costs(used)))
    val (channels, courses) = runs.locked((run.decided(epoch), run.courses(epoch)))
    val whole = Cut(
      epoch,
      run.id,
      StateVersion.newId(clock),
      clock.wallMs(),
      entry,
      offsets,
      chains,
      timings,
      Some(costs),
      channels,
      courses,
      late = runs.locked(run.ledger.late)(chains),
      referred = runs.locked(run.ledger.referredIn(chains)),
      sinks = runs.locked(run.ledger.sinksAfter(epoch))
    )
    Assembled(pages.withPages(run, whole), used, begin, readyNs)
  }

  /** Writes the cut, or returns the equivalent cut of an earlier run. */
  private def ownCut(run: QueryRun, made: Assembled): Committed = {
    import made.{cut, used}
    val epoch = cut.epoch
    val other = if (create(run, cut)) None else Some(adopted(run, epoch))
    run.collector.committed(epoch)
    val writeNs = clock.monotonicNs() - made.readyNs
    // Spark records the versions that it counted, and the next tasks continue from them.
    val continuesFromOwn = CommitEntry.countedIds(cut.commit).isDefined
    val next = if (continuesFromOwn) cut else other.fold(cut)(_.whole)
    val cutMs = TimeUnit.NANOSECONDS.toMillis(writeNs)
    val (tasks, aligned) = runs.locked {
      run.advance(next, isStored = other.isEmpty || !continuesFromOwn)
      committed = Some(CommittedEpoch(cut, cutMs))
      (run.meter.advance(used, writeNs), run.reasons.aligned)
    }
    logCommitted(made)
    val report = Report(next, cutMs, tasks, aligned, run.stored.map(_.now(used, archive)))
    Committed(other.fold(cut)(_.head), Some(report))
  }

  private def create(run: QueryRun, cut: Cut): Boolean = run.writing(archive.cuts.create(cut))

  /** The cut that exists instead of this run's. */
  private def adopted(run: QueryRun, epoch: Long): StoredCut = {
    val existing = archive.cuts.open(epoch)
    existing
      .filter(stored => isEarlier(run, stored.head))
      .getOrElse(throw runs.committedBy(epoch, existing.map(_.head)))
  }

  /**
   * Reports the epoch to the history.
   *
   * @param checkNs
   *   duration of the ownership check after the cut
   */
  private def onCommitted(run: QueryRun, report: Report, checkNs: Long): Unit = {
    import report.{aligned, cut, cutMs, storedBytes, tasks}
    val checkMs = TimeUnit.NANOSECONDS.toMillis(checkNs)
    run.wasLate = run.usual.took(cut.timings.get("epochMs").map(_ + cutMs + checkMs))
    runtime.watcher.foreach { watcher =>
      val health = watcher.health()
      watcher.committed { () =>
        import watcher.{location, name}
        val record = EpochRecord.of(location, name, cut, Some(cutMs), tasks, aligned, health)
        record.copy(
          timings = record.timings + ("checkMs" -> checkMs),
          storedBytes = storedBytes,
          proven = notes.latest.flatMap(_.proven)
        )
      }
    }
  }

  private def msSince(start: Long): Long =
    TimeUnit.NANOSECONDS.toMillis(clock.monotonicNs() - start)
}

private object EpochCommitter {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])

  /** Largest age of an ownership check after the last cut that counts for the next cut. */
  private val CutLookNs = TimeUnit.SECONDS.toNanos(10)

  /**
   * The begin of a commit.
   *
   * @param trigger
   *   Spark's measurements until then
   */
  final private case class Begin(atNs: Long, trigger: Option[TriggerTimes])

  /**
   * A cut that is to be written.
   *
   * @param used
   *   usage up to its epoch
   * @param readyNs
   *   time at which it was assembled
   */
  final private case class Assembled(
      cut: Cut,
      used: UsageBook.Shares,
      begin: Begin,
      readyNs: Long
  )

  /**
   * A committed epoch.
   *
   * @param counted
   *   its cut, which an earlier run may have written
   * @param report
   *   None if this run has not written one
   */
  final private case class Committed(counted: Cut, report: Option[Report])

  /** The figures of an epoch for the history. */
  final private case class Report(
      cut: Cut,
      cutMs: Long,
      tasks: EpochTasks,
      aligned: Map[Long, String],
      storedBytes: Option[Long]
  )
}
