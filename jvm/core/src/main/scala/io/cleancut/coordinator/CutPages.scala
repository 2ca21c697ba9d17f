package io.cleancut.coordinator

import java.util.concurrent.{
  CompletableFuture,
  RejectedExecutionException,
  TimeUnit,
  TimeoutException
}

import org.slf4j.LoggerFactory

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.cutstore.{FrameMerge, PageTurn}
import io.cleancut.error.Errors
import io.cleancut.protocol.{CutWindow, WrittenPages}
import io.cleancut.format.{PackedChain, StoreCut}
import io.cleancut.format.cut.{Cut, WindowPart}

/**
 * Chains of cuts and seals by reference, and the pages that are written for them. At most one
 * thread of a query writes pages at a time, in the background; requests are made without the lock
 * of the [[RunRegistry]].
 */
final private[coordinator] class CutPages(runs: RunRegistry) {
  import CutPages.logger
  import runs.{archive, checkOwner, clock, runtime}

  @volatile private var pageTurn = Option.empty[CompletableFuture[Unit]]

  /** Replaces the chains of a cut by references to pages and segments. */
  def withPages(run: QueryRun, cut: Cut): Cut = {
    val first = firstIn(run, cut)
    val (window, moved) = runs.locked(run.ledger.turn())
    val stores = if (moved.isEmpty) cut.stores else cut.stores.map(placed(_, moved))
    cut.copy(stores = stores, paged = window.and(first).paged(cut.stores))
  }

  private def placed(store: StoreCut, moved: Map[StoreId, PackedChain]): StoreCut =
    moved.get(store.store).fold(store) { chain =>
      StoreCut(store.store, PackedChain.of(store.frames).placedAs(chain))
    }

  /** The same for a seal, which references only the frames of its own epoch. */
  def withFrames(run: QueryRun, seal: Cut): Cut = {
    // The cut, or a later one, adopts the bases that the seal would adopt.
    val last = seal.stores.map(store => StoreCut(store.store, Vector(store.frames.last)))
    val window = CutWindow(Nil, firstIn(run, seal.copy(stores = last)))
    seal.copy(paged = window.paged(seal.stores))
  }

  /** Writes the pages that are due after a cut, while the query continues. */
  def turn(run: QueryRun, cut: Cut): Unit =
    runs.locked(run.pagesDue(cut, runtime.paging)).foreach { turn =>
      val done = new CompletableFuture[Unit]
      pageTurn = Some(done)
      try runtime.background.execute(() => turnPages(run, turn, done))
      catch {
        case e: RejectedExecutionException =>
          runs.locked(run.recordPages(None))
          done.complete(())
          logger.info(s"No pages of ${archive.location}: the run has ended. $e")
      }
    }

  private def turnPages(run: QueryRun, turn: PageTurn, done: CompletableFuture[Unit]): Unit = {
    var turned = Option.empty[WrittenPages]
    // After any error, the next epoch writes the pages again.
    try
      if (!runs.isClosed) {
        val merge = new FrameMerge(archive, run.id, () => newId())
        turned = runs.maintenance.run(Maintenance.Pages)(turn.merged(merge, archive))
      }
    finally {
      runs.locked(run.recordPages(turned))
      done.complete(())
      ()
    }
  }

  /** Waits for pages that are being written. They would create a deleted directory again. */
  def await(): Unit =
    try pageTurn.foreach(_.get(CutPages.PatienceMs, TimeUnit.MILLISECONDS))
    catch {
      case _: TimeoutException =>
        logger.info(
          s"Pages of ${archive.location} are still being written after the end of its run"
        )
    }

  private def newId(): String = StateVersion.newId(clock)

  private def firstIn(run: QueryRun, cut: Cut): Seq[WindowPart] = {
    val first = CutWindow.first(cut.stores, runs.locked(run.ledger.lastCut))
    val unknown = runs.locked(first.keys.filter(run.ledger.ends.of(_).isEmpty)).toSeq
    unknown.foreach { segment =>
      val frames = archive.segments.framesIn(segment)
      if (frames.isEmpty) {
        // Garbage collection of a later owner may have deleted it.
        checkOwner(run, cut.epoch)
        throw Errors.cutCorrupted(
          archive.pathOf(segment),
          "the segment is missing, and the cut references its frames"
        )
      }
      runs.locked(frames.foreach(run.ledger.ends.note))
    }
    runs.locked {
      val ends = run.ledger.ends
      first.toSeq.sortBy(_._1).map { case (segment, offsets) =>
        WindowPart(segment, cut.epoch, ends.of(segment).get, ends.counted(segment, offsets))
      }
    }
  }
}

private object CutPages {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])

  /** Time that the end of a run waits for pages. */
  private val PatienceMs = 2000L
}
