package io.cleancut.coordinator

import java.util.concurrent.TimeUnit

import org.slf4j.LoggerFactory

import io.cleancut.base.StateVersion
import io.cleancut.coordinator.state.{CommittedEpoch, QueryRun}
import io.cleancut.cutstore.{NotesWatch, StoredCut}
import io.cleancut.format.cut.Cut
import io.cleancut.history.{EpochRecord, EpochTasks}
import io.cleancut.protocol.{CommitEntry, EpochPlan}

/**
 * Commits epochs by the conditional write of their cuts. When a commit returns, the epoch has
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
   * Commits an epoch: waits for what it must have, and writes the cut.
   *
   * @param entry
   *   Spark's own entry for the commit log
   * @param plan
   *   the epoch's tasks, if they can be run here; asked for only where some have not run
   * @return
   *   the entry that counts: that of the epoch's cut, which may be by a run before this one
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE; nothing of the epoch counts then. CLEANCUT_FENCED
   */
  def commit(
      runId: String,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan]
  ): String = {
    val start = clock.monotonicNs()
    val run = runs.believed(runId, epoch)
    runs.checkOpen(run, epoch)
    // A sink may return without having sealed.
    frames.flush(run, epoch)
    val counted = lateCut(run, epoch, entry).getOrElse(ownCut(run, epoch, entry, plan, start))
    // Before the next epoch is planned: a later owner has seen the cut, or else is seen here.
    runs.checkOwner(run, epoch + 1)
    run.lookedNs = Some(clock.monotonicNs())
    maintenance.afterCommit(run, epoch)
    counted.commit
  }

  /**
   * The cut of a run before this one, which came when this one had begun and has not all that its
   * own would need: its sink has skipped what the other has shown.
   */
  private def lateCut(run: QueryRun, epoch: Long, entry: String): Option[Cut] = {
    // Where Spark counts versions, all tasks of this run have made theirs.
    def mayLack = runs.locked(run.at(epoch).isFirst && run.at(epoch).finishing.isEmpty) &&
      CommitEntry.countedIds(entry).isEmpty
    val isToLook = !run.begun.isAlone && mayLack && stores.closed(run, epoch, None).isLeft
    val found =
      if (isToLook) archive.cuts.open(epoch).filter(of => isEarlier(run, of.head)).map(_.whole)
      else None
    found.foreach { cut =>
      logger.info(s"Epoch $epoch of ${archive.location} was committed by run ${cut.run.runId}")
      runs.locked(run.advance(cut))
    }
    found
  }

  /**
   * Both have run the same offsets under the same decisions; but of two acts each makes something
   * else.
   */
  private def isEarlier(run: QueryRun, cut: Cut): Boolean =
    !runs.locked(
      run.ledger.operation.isDefined
    ) && cut.run.generation < run.id.generation && cut.offsets == logs.offsets(cut.epoch)

  /** The cut of what this run has made; or that of a run before it, which is as good. */
  private def ownCut(
      run: QueryRun,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan],
      start: Long
  ): Cut = {
    val chains = sources.find(run, epoch, entry, plan)
    val collectedNs = clock.monotonicNs()
    if (!runs.locked(run.at(epoch).isSealed)) runs.checkOwnerUnless(run, epoch, CutLookNs)
    val ownedNs = clock.monotonicNs()
    val offsets = logs.offsets(epoch)
    val readyNs = clock.monotonicNs()
    val used = runs.usage()
    val parts = Seq("collectMs" -> collectedNs, "ownerMs" -> ownedNs, "offsetsMs" -> readyNs)
    val (timings, costs) =
      runs.locked((run.meter.timings(start, parts), run.meter.costs(used)))
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
    val cut = pages.withPages(run, whole)
    val other = if (archive.cuts.create(cut)) None else Some(adopted(run, epoch))
    run.collector.committed(epoch)
    val writeNs = clock.monotonicNs() - readyNs
    // Spark names the versions that it has counted, and has the next tasks go on from those.
    val goesOnFromOwn = CommitEntry.countedIds(entry).isDefined
    val next = if (goesOnFromOwn) cut else other.fold(cut)(_.whole)
    val cutMs = TimeUnit.NANOSECONDS.toMillis(writeNs)
    run.wasLate = run.usual.took(timings.get("epochMs").map(_ + cutMs))
    val (tasks, aligned) = runs.locked {
      run.advance(next)
      committed = Some(CommittedEpoch(cut, cutMs))
      (run.meter.advance(used, writeNs), run.aligned)
    }
    onCommitted(next, cutMs, tasks, aligned, run.stored.map(_.now(used, archive)))
    logger.info(
      s"Epoch $epoch of ${archive.location} is committed: ${chains.size} stores, gate took " +
        s"${msSince(start)} ms"
    )
    other.fold(cut)(_.head)
  }

  /** The cut that is there in the place of this run's. */
  private def adopted(run: QueryRun, epoch: Long): StoredCut = {
    val found = archive.cuts.open(epoch)
    found
      .filter(of => isEarlier(run, of.head))
      .getOrElse(throw runs.committedBy(epoch, found.map(_.head)))
  }

  /** Reports the epoch to the history. */
  private def onCommitted(
      cut: Cut,
      cutMs: Long,
      tasks: EpochTasks,
      aligned: Map[Long, String],
      storedBytes: => Option[Long]
  ): Unit =
    runtime.watcher.foreach { watcher =>
      val weather = watcher.weather()
      val stored = storedBytes
      watcher.committed { () =>
        import watcher.{location, name}
        EpochRecord
          .of(location, name, cut, Some(cutMs), tasks, aligned, weather)
          .copy(storedBytes = stored, proven = notes.seen.flatMap(_.proven))
      }
    }

  private def msSince(start: Long): Long =
    TimeUnit.NANOSECONDS.toMillis(clock.monotonicNs() - start)
}

private object EpochCommitter {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])

  /** An owner check after the last cut that is not older than this counts for the next cut. */
  private val CutLookNs = TimeUnit.SECONDS.toNanos(10)
}
