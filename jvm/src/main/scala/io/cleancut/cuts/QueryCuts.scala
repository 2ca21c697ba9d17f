package io.cleancut.cuts

import java.util.concurrent.{CompletableFuture, TimeUnit}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

import org.slf4j.LoggerFactory

import io.cleancut.{Clock, StateVersion, StoreId}
import io.cleancut.channels._
import io.cleancut.error.Errors
import io.cleancut.format._

/** What the coordinator has to know of a query beside its cuts; Spark keeps it. */
trait SparkLogs {
  def queryId(): Option[String]

  /** The offset log's entry, verbatim. */
  def offsets(epoch: Long): String

  /** The last epoch whose entry of the commit log is a file of its own. */
  def lastPlainCommit(): Option[Long]

  /** How many epochs can be gone back to. */
  def epochsToKeep: Int
}

/**
 * The coordinator of one query, on its driver: takes what tasks report, and turns an epoch into a
 * cut. A run of the query begins with its first report or commit, and takes the ownership then; a
 * run that is not the latest here is not believed any more.
 *
 * All methods may be called from any thread. Those that name a run may do requests.
 *
 * @param host
 *   for the owner's note
 */
final class QueryCuts(archive: CutArchive, logs: SparkLogs, host: String, runtime: CutsRuntime)
    extends AutoCloseable {
  import QueryCuts._
  import runtime.{clock, packer}

  private val sweep = new CutSweep(archive, runtime.baseMargin)
  private var current = Option.empty[QueryRun]
  private var past = Set.empty[String]
  private val book = new UsageBook
  private var last = Option.empty[CommittedEpoch]

  def this(archive: CutArchive, logs: SparkLogs, host: String, clock: Clock) =
    this(archive, logs, host, CutsRuntime.onThreads(archive.store, clock))

  /** A task attempt opens a store for writing at a version. */
  def open(runId: String, attempt: Long, store: StoreId, version: Long): Either[String, Opened] =
    within(runId) { run =>
      val opened = run.ledger.open(attempt, store, version)
      if (opened.isRight) run.meter.opened(attempt, store, clock.monotonicNs())
      opened
    }.flatten

  /** The id of a version that counts; None where the cuts do not know the store. */
  def accepted(store: StoreId, version: Long): Option[String] = synchronized {
    current.flatMap(_.ledger.accepted(store, version))
  }

  /** A task attempt failed, whatever it reported. */
  def fail(runId: String, attempt: Long): Unit = synchronized {
    current.filter(_.id.runId == runId).foreach { run =>
      run.ledger.fail(attempt)
      run.channels.stragglers.ended(attempt)
    }
  }

  /** A task attempt begins to read a channel. */
  def openChannel(runId: String, task: ChannelTask): Either[String, ChannelOpened] =
    within(runId)(_.openChannel(task, clock.monotonicNs())).flatten

  /** A task attempt has read a channel to its end, and made durable what it left in flight. */
  def arrived(runId: String, attempt: Long, report: ChannelReport): Either[String, Unit] =
    within(runId) { run =>
      run.channels.report(attempt, report)
      run.channels.stragglers.arrived(attempt, clock.monotonicNs())
    }

  /** The channels that hold rows behind the last cut. */
  def inFlight(runId: String): Either[String, Seq[StoreCut]] = within(runId)(_.ledger.inFlight)

  /** Whether an earlier run has let the sink of this epoch write. */
  def isSealedBefore(runId: String, epoch: Long): Boolean =
    within(runId)(_.sealedBefore(epoch).isDefined).getOrElse(false)

  /** Why operators of this run cannot be captured, by their ids. */
  def alignedBecause(runId: String, reasons: Map[Long, String]): Unit = {
    within(runId)(_.aligned = reasons)
    ()
  }

  /** The attempts on an executor that are overtaken, as soon as there are some that it misses. */
  def awaitOvertaken(
      runId: String,
      executor: String,
      known: Set[Long]
  ): CompletableFuture[Set[Long]] = {
    val answer = within(runId)(_.barrier.await(executor, known, clock.monotonicNs()))
    tick()
    answer.getOrElse(CompletableFuture.completedFuture(Set.empty[Long]))
  }

  /**
   * Cuts the epoch that runs: every task of it stops to take rows in, and those that have not begun
   * take none.
   *
   * @return
   *   whether an epoch runs whose rows may stay in flight
   */
  def cutNow(): Boolean = {
    val isCut = synchronized(current.exists(_.cutNow()))
    tick()
    isCut
  }

  /** Looks at the time; to be called often while tasks run that may be overtaken. */
  def tick(): Unit = {
    val answers = synchronized {
      current.toSeq.flatMap(_.tick(clock.monotonicNs()))
    }
    answers.foreach(_())
  }

  /** Who is about to report for a task attempt; for the costs alone. */
  def heard(runId: String, attempt: Long, from: Sender): Unit = synchronized {
    book.heard(from)
    current.filter(_.id.runId == runId).foreach(_.meter.heard(attempt, from))
  }

  /**
   * An executor made a frame durable. The answer is there when the executor may let its task go on:
   * the commit that completes an epoch waits for all that its other tasks did not wait for.
   */
  def report(runId: String, frame: PlacedFrame): CompletableFuture[Ack] =
    answered(runId)(ack(_, frame))

  /**
   * Makes a small frame durable together with others, at the latest when its epoch may be complete.
   *
   * @return
   *   None if too much waits already, so that the executor had better write it; else what
   *   [[report]] answers
   */
  def submit(runId: String, frame: SealedFrame): Option[CompletableFuture[Ack]] =
    runOf(runId) match {
      case Left(why)  => Some(CompletableFuture.completedFuture[Ack](Ack.Unknown(why)))
      case Right(run) =>
        synchronized(run.keep(frame)) match {
          case Some(ack) =>
            Some(answered(runId) { run =>
              run.meter.accepted(frame.attempt, frame.name.store, clock.monotonicNs())
              ack
            })
          case None =>
            val of = segmentsOf(run, frame.name.version.number - 1)
            packer.trySubmit(of, frame).map(_.thenCompose[Ack](report(runId, _)))
        }
    }

  private def ack(run: QueryRun, frame: PlacedFrame): Ack = {
    val ack = run.ledger.ack(frame)
    if (ack == Ack.Accepted) {
      run.meter.accepted(frame.attempt, frame.name.store, clock.monotonicNs())
    }
    ack
  }

  private def answered(runId: String)(ack: QueryRun => Ack): CompletableFuture[Ack] =
    within(runId)(run => (run, ack(run), run.due())) match {
      case Left(why)                    => CompletableFuture.completedFuture[Ack](Ack.Unknown(why))
      case Right((_, ack, None))        => CompletableFuture.completedFuture(ack)
      case Right((run, ack, Some(due))) =>
        write(run, due)
        due.all.thenApply[Ack](_ => ack)
    }

  /**
   * The sink of this epoch makes nothing visible before it calls [[seal]]. Until then a frame that
   * the driver has is safe enough.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def hold(runId: String, epoch: Long): Unit = {
    val run = believed(runId, epoch)
    synchronized(if (epoch > run.ledger.lastCommitted) run.hold(epoch))
  }

  /**
   * Makes durable what [[hold]] has kept of an epoch, and looks whether another driver owns the
   * query by now. When it returns, every store that the epoch's tasks have opened is durable, and
   * the sink may let its output be seen.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED; the sink must not write then
   */
  def seal(runId: String, epoch: Long): Unit = {
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    flush(run, epoch)
    val stores = waited(run, epoch, () => synchronized(run.ledger.close(epoch, None)))
    checkOwner(run, epoch)
    writeSeal(run, epoch, stores)
    synchronized(run.seal(epoch))
  }

  /** An epoch that runs again behind its seal is to be cut where it was; see `docs/PROTOCOL.md`. */
  private def writeSeal(run: QueryRun, epoch: Long, stores: Seq[StoreCut]): Unit = {
    val decided = synchronized(run.channels.decisions)
    if (decided.nonEmpty && synchronized(run.sealedBefore(epoch)).isEmpty) {
      val seal = Cut(
        epoch,
        run.id,
        StateVersion.newId(clock),
        clock.wallMs(),
        commit = "",
        offsets = "",
        stores,
        timings = Map.empty,
        channels = decided
      )
      if (!archive.seal(seal)) throw fencedBy(epoch, archive.readSeal(epoch))
    }
  }

  /** The identity under which an executor writes the segments of this run. */
  def writer(runId: String): Either[String, RunId] = runOf(runId).map(_.id)

  /**
   * Commits an epoch: waits for what it must have, and writes the cut.
   *
   * @param entry
   *   Spark's own entry for the commit log
   * @param plan
   *   the epoch's tasks, if they can be run here; asked for only where some have not run
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED; nothing of the epoch counts then
   */
  def commit(
      runId: String,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan] = None
  ): Unit = {
    val start = clock.monotonicNs()
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    // A sink may return without having sealed.
    flush(run, epoch)
    val stores = collected(run, epoch, entry, plan)
    val collectedNs = clock.monotonicNs()
    if (!synchronized(run.isSealed(epoch))) checkOwner(run, epoch)
    val ownedNs = clock.monotonicNs()
    val offsets = logs.offsets(epoch)
    val readyNs = clock.monotonicNs()
    val used = usage()
    val parts = Seq("collectMs" -> collectedNs, "ownerMs" -> ownedNs, "offsetsMs" -> readyNs)
    val (timings, costs, channels) = synchronized {
      (run.meter.timings(start, parts), run.meter.costs(used), run.decided(epoch))
    }
    val cut = Cut(
      epoch,
      run.id,
      StateVersion.newId(clock),
      clock.wallMs(),
      entry,
      offsets,
      stores,
      timings,
      Some(costs),
      channels
    )
    if (!archive.create(cut)) throw fencedBy(epoch, archive.read(epoch))
    val writeNs = clock.monotonicNs() - readyNs
    synchronized {
      run.advance(cut)
      run.meter.advance(used, writeNs)
      last = Some(CommittedEpoch(cut, TimeUnit.NANOSECONDS.toMillis(writeNs)))
    }
    logger.info(
      s"Epoch $epoch of ${archive.location} is committed: ${stores.size} stores, gate took " +
        s"${msSince(start)} ms"
    )
    if ((epoch + 1) % runtime.sweepEpochs == 0) sweepInBackground(epoch)
  }

  /** Keeps the cut of an epoch under a name; see [[CutArchive.pin]]. */
  def pin(name: String, epoch: Long): Unit = archive.pin(name, epoch)

  def unpin(name: String): Boolean = archive.unpin(name)

  def status: CutsStatus = synchronized {
    CutsStatus(
      archive.location,
      current.map(_.id),
      current.map(_.ledger.lastCommitted).filter(_ >= 0),
      current.map(_.ledger.epoch.progress),
      current.toSeq.flatMap(_.meter.slowest),
      last,
      usage(),
      current.toSeq.flatMap(_.ledger.lastCut).flatMap(_.channels),
      current.fold(Map.empty[Long, String])(_.aligned)
    )
  }

  override def close(): Unit = packer.close()

  private def flush(run: QueryRun, epoch: Long): Unit =
    write(run, synchronized(run.release(epoch)))

  private def write(run: QueryRun, frames: Seq[SealedFrame]): Unit =
    frames.headOption.foreach { first =>
      val placed = packer.write(segmentsOf(run, first.name.version.number - 1), frames)
      synchronized(placed.foreach(run.ledger.ack))
    }

  private def write(run: QueryRun, due: EarlyFrames.Write): Unit =
    try {
      write(run, due.frames)
      synchronized(run.wrote(due))
      due.done.complete(())
      ()
    } catch {
      case NonFatal(e) =>
        synchronized(run.failed(due))
        due.done.completeExceptionally(e)
        ()
    }

  private def segmentsOf(run: QueryRun, epoch: Long) =
    SegmentIdentity(epoch, CutsRuntime.Driver, run.id.runId, run.id.generation)

  /**
   * What the epoch's tasks have reported. Their frames were durable before they were done, and they
   * were done before the sink was. So what lacks here was made by an earlier run of the epoch,
   * which the sink has seen; or, if nothing is left of that, it can only be made again.
   */
  private def collected(
      run: QueryRun,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan]
  ): Seq[StoreCut] = {
    val counted = CommitEntry.countedIds(entry)
    def look() = synchronized(run.ledger.close(epoch, counted))
    val reported = look()
    // Without a cut before it, only tasks tell which stores there are, and some may not have run.
    val isSure = reported.isRight && synchronized(run.ledger.lastCut).isDefined
    val sealedStores = synchronized(run.sealedBefore(epoch)).map(_.stores)
    val found =
      if (isSure || counted.isDefined) reported
      // The sink has seen the epoch, and has made none of its tasks run again.
      else if (reported.isLeft && sealedStores.isDefined) sealedStores.toRight(Set.empty[StoreId])
      else {
        val known = plan
        chosen(reported, earlierRuns(run, epoch), known).toRight(Set.empty).orElse {
          // What lacks may have been swept by a later owner, behind cuts of its own.
          checkOwner(run, epoch)
          known.foreach { tasks =>
            logger.info(s"Runs epoch $epoch of ${archive.location}, as its sink has skipped it")
            tasks.run()
          }
          look()
        }
      }
    found.getOrElse(waited(run, epoch, () => look()))
  }

  /** Of this run and an earlier one, that which has all of the epoch. */
  private def chosen(
      reported: Either[Set[StoreId], Seq[StoreCut]],
      earlier: Either[Set[StoreId], Seq[StoreCut]],
      plan: Option[EpochPlan]
  ): Option[Seq[StoreCut]] = {
    def whole(found: Either[Set[StoreId], Seq[StoreCut]]) =
      found.toOption.filter(stores => plan.forall(_.isWhole(stores)))
    // Nothing at all is no evidence where this run has seen a task.
    val before = whole(earlier).filter(stores => stores.nonEmpty || reported.isRight)
    (whole(reported), before) match {
      case (Some(own), Some(other)) if own.size < other.size => before
      case (own, _)                                          => own.orElse(before)
    }
  }

  private def waited(
      run: QueryRun,
      epoch: Long,
      look: () => Either[Set[StoreId], Seq[StoreCut]]
  ): Seq[StoreCut] = {
    var found = look()
    var retry = 0
    while (found.isLeft && retry < Retries) {
      clock.sleep(FirstWaitMs << retry, TimeUnit.MILLISECONDS)
      retry += 1
      found = look()
    }
    found.fold(
      missing => {
        // What a run reports is not taken any more once another one has followed it.
        believed(run.id.runId, epoch)
        val named = missing.toSeq.map(_.toString).sorted
        val more = if (named.size > Named) s" and ${named.size - Named} more" else ""
        throw Errors
          .epochIncomplete(archive.location, epoch, named.take(Named).mkString("; ") + more)
      },
      identity
    )
  }

  private def earlierRuns(run: QueryRun, epoch: Long): Either[Set[StoreId], Seq[StoreCut]] = {
    // Of its own tasks a run knows more than their segments would tell.
    val (cut, tasks, segments) = synchronized {
      val own = Option(run.ledger.epoch).filter(_.epoch == epoch)
      (run.ledger.lastCut, own.toSeq.flatMap(_.tasks.map(_.toSet)), own.map(_.segments))
    }
    val others = archive.segmentsOf(epoch, segments.getOrElse(Set.empty))
    new EarlierRuns(epoch, cut, others, run.id.runId, tasks).close()
  }

  /** The run before this one may have committed the epoch after Spark had looked for it. */
  private def checkOpen(run: QueryRun, epoch: Long): Unit =
    if (epoch <= synchronized(run.ledger.lastCommitted)) throw fencedBy(epoch, archive.read(epoch))

  private def fencedBy(epoch: Long, cut: Option[Cut]) = {
    val by = cut.fold("another run")(c => s"generation ${c.run.generation}, run ${c.run.runId},")
    Errors.fenced(archive.location, epoch, s"$by has committed the epoch")
  }

  private def checkOwner(run: QueryRun, epoch: Long): Unit = {
    val next = run.id.generation + 1
    if (archive.isOwned(next)) {
      val owner = archive.owner(next).getOrElse(s"generation $next")
      throw Errors.fenced(archive.location, epoch, owner)
    }
  }

  private def within[A](runId: String)(act: QueryRun => A): Either[String, A] =
    runOf(runId).map(run => synchronized(act(run)))

  private def usage(): UsageBook.Shares = synchronized {
    book.now(Usage(archive.store.counts, packer.written))
  }

  private def believed(runId: String, epoch: Long): QueryRun =
    runOf(runId).fold(why => throw Errors.fenced(archive.location, epoch, why), identity)

  /** The run, which begins here if nothing of it has been seen; or why it is not believed. */
  private def runOf(runId: String): Either[String, QueryRun] = synchronized {
    current match {
      case Some(run) if run.id.runId == runId => Right(run)
      case _ if past(runId)                   =>
        Left(s"run $runId has been followed by run ${current.fold("")(_.id.runId)}")
      case _ =>
        val begun = begin(runId)
        past ++= current.map(_.id.runId)
        current = Some(begun)
        Right(begun)
    }
  }

  private def begin(runId: String): QueryRun = {
    val begun = usage()
    val queryId = logs.queryId()
    val generation = archive.own(queryId, runId, host)
    // Looked up before the cuts: an entry that is written behind its cut is never ahead then.
    val plain = logs.lastPlainCommit()
    val listed = archive.listed()
    val cut = listed.epochs.lastOption.flatMap(archive.read)
    if (cut.isEmpty) archive.mark(queryId)
    for (last <- plain; done <- cut if last > done.epoch && done.stores.nonEmpty)
      throw Errors.cutsOvertaken(archive.location, last, done.epoch)
    val committed = (cut.map(_.epoch) ++ plain).maxOption.getOrElse(-1L)
    logger.info(
      s"Run $runId owns ${archive.location} as generation $generation, behind epoch $committed"
    )
    val seal = listed.seals.find(_ == committed + 1).flatMap(archive.readSeal)
    seal.foreach(s => logger.info(s"Epoch ${s.epoch} was sealed by run ${s.run.runId}"))
    new QueryRun(
      RunId(queryId, runId, generation),
      new QueryLedger(committed, cut, runtime.baseMargin, seal),
      new EpochMeter(begun),
      seal
    )
  }

  private def sweepInBackground(epoch: Long): Unit = {
    val oldest = epoch - logs.epochsToKeep
    if (oldest > 0) {
      runtime.background.execute { () =>
        try {
          val swept = sweep.run(oldest)
          logger.info(
            s"Swept ${swept.cuts} cuts, ${swept.segments} segments and ${swept.storeFiles} files " +
              "from before the first cut"
          )
        } catch {
          case NonFatal(e) => logger.warn(s"The sweep of ${archive.location} is put off", e)
        }
      }
    }
    ()
  }

  private def msSince(start: Long): Long =
    TimeUnit.NANOSECONDS.toMillis(clock.monotonicNs() - start)
}

object QueryCuts {
  private val logger = LoggerFactory.getLogger(classOf[QueryCuts])

  private val Retries = 3
  private val FirstWaitMs = 100L
  private val Named = 10
}

/**
 * Where a query stands.
 *
 * @param run
 *   the one that is believed, once it has been heard of
 * @param committed
 *   the last epoch that has been
 * @param slowest
 *   stores of the epoch that is under way, among those that have committed
 * @param last
 *   the last epoch that this driver has committed
 * @param usage
 *   of all processes for this query, since each of them began
 * @param channels
 *   as the last cut has them
 * @param aligned
 *   why operators are not captured, by their ids
 */
final case class CutsStatus(
    location: String,
    run: Option[RunId],
    committed: Option[Long],
    epoch: Option[EpochProgress],
    slowest: Seq[StoreTime],
    last: Option[CommittedEpoch],
    usage: UsageBook.Shares,
    channels: Seq[ChannelReport],
    aligned: Map[Long, String]
)

/**
 * An epoch that was committed.
 *
 * @param writeMs
 *   what the write of its cut took, which the cut cannot tell itself
 */
final case class CommittedEpoch(cut: Cut, writeMs: Long)

/** Spark's entry of the commit log. */
private object CommitEntry {
  private val mapper = new ObjectMapper

  /**
   * The ids of the versions that Spark counted, of all operators; None where the entry names none:
   * in checkpoint format 1, or if no task ran.
   */
  def countedIds(entry: String): Option[Set[String]] = {
    val json = entry.linesIterator.drop(1).mkString("\n")
    val node =
      try mapper.readTree(json)
      catch { case NonFatal(_) => mapper.createObjectNode() }
    val ids = collection.mutable.Set.empty[String]
    def collect(at: com.fasterxml.jackson.databind.JsonNode): Unit =
      if (at.isTextual) ids += at.asText else at.elements.forEachRemaining(collect(_))
    collect(node.path("stateUniqueIds"))
    if (ids.isEmpty) None else Some(ids.toSet)
  }
}
