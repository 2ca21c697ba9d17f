package io.cleancut.coordinator

import java.util.concurrent.RejectedExecutionException

import org.slf4j.LoggerFactory

import io.cleancut.coordinator.state.QueryRun
import io.cleancut.cutstore.StoredSize
import io.cleancut.objectstore.Leftovers

/**
 * Background work after a commit: pages first, then garbage collection, of which at most one runs
 * at a time. Requests are made without the lock of the [[RunRegistry]]. No commit waits for it.
 */
final private[coordinator] class CutMaintenance(runs: RunRegistry, pages: CutPages) {
  import CutMaintenance.logger
  import runs.{archive, clock, runtime}

  private lazy val leftovers = new Leftovers(archive.store, clock)

  /** Starts the work that is due after an epoch, unless it is postponed. */
  def afterCommit(run: QueryRun, epoch: Long): Unit = {
    run.isSweepDue ||= (epoch + 1) % runtime.sweepEpochs == 0 && run.collector.isDue(epoch)
    if (!runs.maintenance.waits(run.wasLate)) {
      runs.locked(run.ledger.lastCut).foreach(pages.turn(run, _))
      // While a sweep runs, the next one stays due.
      if (run.isSweepDue && run.collector.tryStart()) {
        run.isSweepDue = false
        sweepInBackground(run, epoch)
      }
    }
  }

  private def sweepInBackground(run: QueryRun, epoch: Long): Unit = {
    val sweep: Runnable = () => {
      runs.maintenance.run(Maintenance.Sweep)(sweepNow(run, epoch))
      leftovers.runIfDue()
    }
    try runtime.background.execute(sweep)
    catch {
      case e: RejectedExecutionException =>
        run.collector.cancel()
        logger.info(s"No garbage collection of ${archive.location}: the run has ended. $e")
    }
  }

  private def sweepNow(run: QueryRun, epoch: Long): Unit = {
    val used = runs.usage()
    val served = runs.locked(run.servedSeals)
    val (swept, oldest) = run.collector.run(epoch, served.toSeq) { oldest =>
      runs.locked(run.ledger.retainedSegments(oldest, clock.monotonicNs()))
    }
    runs.locked {
      run.ledger.bases.swept(oldest)
      run.forget(served)
    }
    run.stored = swept.keptBytes
      .map(StoredSize.listed(_, used, archive))
      .orElse(run.stored.map(_.minus(swept.deletedBytes)))
    logger.info(
      s"Deleted ${swept.cuts} cuts, ${swept.segments} segments, ${swept.pages} pages and " +
        s"${swept.storeFiles} files that precede the first cut"
    )
  }
}

private object CutMaintenance {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}
