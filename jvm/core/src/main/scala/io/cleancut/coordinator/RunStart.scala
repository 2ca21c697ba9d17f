package io.cleancut.coordinator

import java.util.concurrent.atomic.AtomicBoolean

import org.slf4j.LoggerFactory

import io.cleancut.coordinator.state.{Begun, EpochWriter, EpochMeter, QueryLedger, QueryRun}
import io.cleancut.cutstore.{CutArchive, CutsListed, Owner, StoredSize, Taken}
import io.cleancut.cutstore.gc.{CutAges, GarbageCollector}
import io.cleancut.cutstore.usage.UsageBook
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.format.cut.{Cut, RunId, SinkEpochs}

/**
 * The start of a run: it takes ownership, and reads the last cut, the seal after it, and the
 * objects that garbage collection requires. Holds no lock. For one thread at a time.
 *
 * @param host
 *   host name in the owner object
 */
final private[coordinator] class RunStart(
    archive: CutArchive,
    logs: SparkLogs,
    host: String,
    runtime: CutsRuntime,
    usage: () => UsageBook.Shares,
    isClosed: () => Boolean,
    handover: Handover
) {
  import RunStart.logger
  import runtime.clock

  private val sweepPermit = new AtomicBoolean

  /** Takes the next generation for a run, and reads the state that it continues from. */
  def start(runId: String): StartedRun = {
    val used = usage()
    val (queryId, owners) = runtime.reads.both(marked(), archive.owners.names())
    val waits = runtime.handoverMs > 0
    val taken = handover.awaitTurn(
      archive.owners.take(queryId, runId, host, owners, waits, runtime.address)
    )
    val (plain, listed) = commits()
    // Either a later owner has found the same objects, or this check finds the later owner.
    val (cut, isFollowed) = runtime.reads.both(
      listed.epochs.lastOption.flatMap(wholeCut(taken.generation, _)),
      archive.owners.isTaken(taken.generation + 1)
    )
    for (last <- plain; done <- cut if last > done.epoch && done.stores.nonEmpty)
      throw Errors.commitLogAhead(archive.location, last, done.epoch)
    val committed = (cut.map(_.epoch) ++ plain).maxOption.getOrElse(-1L)
    logger.info(
      s"Run $runId owns ${archive.location} as generation ${taken.generation}, after epoch " +
        s"$committed"
    )
    if (!taken.isAlone) logRivals(taken.generation)
    val seal =
      listed.sealOf(committed + 1).flatMap(archive.cuts.readSeal(_, cut)).filterNot(_.isClaim)
    seal.foreach(s => logger.info(s"Epoch ${s.epoch} was sealed by run ${s.run.runId}"))
    val collector = newCollector(taken, listed)
    val uncut = if (cut.isEmpty && committed >= 0) archive.uncutSinks() else SinkEpochs.Empty
    val last = cut.filter(_.epoch == committed)
    val run = new QueryRun(
      RunId(queryId, runId, taken.generation),
      new QueryLedger(committed, cut, runtime.baseMargin, seal, uncut),
      new EpochMeter(used),
      seal,
      Begun(
        committed,
        last,
        taken.generation,
        taken.isAlone,
        isSuccessor = taken.waitsFor.isDefined,
        collector = Some(collector),
        cutEpochs = Some(listed.epochs)
      ),
      collector,
      runtime.budget,
      new EpochWriter(runtime.writes, runtime.beforeWait)
    )
    // A new query has no objects yet; for other queries the first garbage collection counts them.
    if (committed < 0) run.stored = Some(StoredSize.listed(0L, used, archive))
    StartedRun(run, isFollowed)
  }

  /** The query ID, after `format.json` was created or checked. */
  private def marked(): Option[String] = {
    val (queryId, format) = runtime.reads.both(logs.queryId(), archive.format())
    archive.mark(queryId, format)
    queryId
  }

  /**
   * The last commit entry that is a separate file, and the cuts. An entry is written after its cut,
   * so it is ahead of the cuts only if these were listed after it.
   */
  private def commits(): (Option[Long], CutsListed) = {
    val (plain, listed) = runtime.reads.both(logs.lastPlainCommit(), archive.cuts.listed())
    val isAhead = plain.exists(epoch => listed.epochs.lastOption.forall(_ < epoch))
    (plain, if (isAhead) archive.cuts.listed() else listed)
  }

  private def newCollector(taken: Taken, listed: CutsListed): GarbageCollector = {
    val retention = logs.retention
    val writtenMs = listed.cutInfos.iterator.map { case (epoch, info) => epoch -> info.modifiedMs }
    val ages = new CutAges(retention.ms, writtenMs.to(Iterable), taken.storeClock, clock)
    // A later owner may reference segments that this run considers unreferenced.
    def deletesOnlyCuts() = isClosed() || archive.owners.isTaken(taken.generation + 1)
    new GarbageCollector(
      archive,
      retention,
      runtime.baseMargin,
      ages,
      taken.storeClock,
      listed.seals,
      () => deletesOnlyCuts(),
      sweepPermit,
      clock
    )
  }

  /**
   * Reads the complete cut. Garbage collection of a later owner may have deleted objects that it
   * references.
   */
  private def wholeCut(generation: Long, epoch: Long): Option[Cut] =
    try archive.cuts.open(epoch, runtime.parts(archive)).map(_.whole)
    catch {
      case e: CleancutException =>
        archive.owners.find(generation + 1).foreach { owner =>
          throw Errors.fenced(archive.location, epoch + 1, owner.toString)
        }
        throw e
    }

  /** In the background: the records of earlier runs are read for this message only. */
  private def logRivals(generation: Long): Unit = runtime.reads.start {
    Owner.rivalry(archive.owners.latest(generation)).foreach { rivals =>
      logger.warn(s"At ${archive.location} $rivals")
    }
  }
}

/**
 * A run that owns its query.
 *
 * @param isFollowed
 *   whether a later owner exists
 */
final private[coordinator] case class StartedRun(run: QueryRun, isFollowed: Boolean)

private object RunStart {
  private val logger = LoggerFactory.getLogger(classOf[QueryCoordinator])
}
