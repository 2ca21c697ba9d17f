package io.cleancut.cuts

import java.util.concurrent.{RejectedExecutionException, TimeUnit}

import org.slf4j.LoggerFactory

import io.cleancut.{StateVersion, StoreId}
import io.cleancut.channels.Channels
import io.cleancut.error.Errors
import io.cleancut.format._
import io.cleancut.history.EpochRecord
import io.cleancut.objects.Leftovers

/** Where an epoch becomes a cut: the seal that its sink asks for, and its commit. */
trait EpochGate extends PagedCuts {
  import EpochGate._
  import EpochState.SealBy

  private[cuts] var last = Option.empty[CommittedEpoch]

  private[cuts] lazy val watchedNotes =
    new NotesWatch(() => archive.notes(), clock, runtime.background)

  private lazy val leftovers = new Leftovers(archive.store, clock)

  /**
   * The sink of this epoch makes nothing visible before it calls [[seal]]. Until then a frame that
   * the driver has is safe enough.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def hold(runId: String, epoch: Long): Unit = {
    val run = believed(runId, epoch)
    synchronized(run.on(EpochState.Hold(epoch)))
  }

  /**
   * An epoch makes all of the state anew, in these stores and no others: it is not one of a query,
   * but of an act on its checkpoint.
   *
   * @param epoch
   *   the next, or a later one; those before it will have no cut
   * @param inFlight
   *   the rows in flight that it takes along
   * @param sinks
   *   the published epochs that count after it
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, CLEANCUT_FRAME_DAMAGED
   */
  def replace(
      runId: String,
      epoch: Long,
      stores: Set[StoreId],
      inFlight: Option[InFlightSource] = None,
      sinks: SinkEpochs = SinkEpochs.Empty
  ): Unit = {
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    synchronized(run.ledger.replace(epoch, stores, sinks))
    for (source <- inFlight if !source.isEmpty) {
      val (frames, reports) = source.frames(epoch + 1, clock)
      val placed = runtime.packer.write(segmentsOf(run, epoch), frames)
      val channels = placed.map { of =>
        StoreCut(of.name.store, PackedChain.of(Vector((of.name.kind, of.name.version, of.place))))
      }
      synchronized {
        placed.foreach(run.ledger.ends.note)
        run.ledger.take(TakenAlong(channels, reports))
      }
    }
  }

  /**
   * Gives such an epoch bases that refer to chains of earlier ones, and makes them durable.
   *
   * @param bases
   *   one for each of its stores
   * @param segments
   *   that these lead to
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def refer(
      runId: String,
      epoch: Long,
      bases: Seq[SealedFrame],
      segments: Set[String]
  ): Unit = {
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    // Who does not know of them would take what they lead to for garbage.
    archive.mark(run.id.queryId, FormatNote.Referring)
    val placed = runtime.packer.write(segmentsOf(run, epoch), bases)
    synchronized {
      placed.foreach(run.ledger.ack)
      run.ledger.refer(Referred(epoch + 1, segments.toSeq.sorted))
    }
  }

  /**
   * Makes durable what is there of such an epoch, so that it can be read before it is committed.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED
   */
  def settle(runId: String, epoch: Long): Unit = {
    val run = believed(runId, epoch)
    flush(run, epoch)
    val stores = waited(run, epoch, () => closed(run, epoch, None))
    synchronized(run.ledger.settle(stores))
  }

  /**
   * The epochs that sinks have published, up to the last that is committed.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def sinks(runId: String, epoch: Long): SinkEpochs = {
    val run = believed(runId, epoch)
    synchronized(run.ledger.sinks)
  }

  /**
   * Sinks, by the keys of their ledgers, have published an epoch; its cut records that.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def published(runId: String, epoch: Long, sinks: Set[String]): Unit = {
    val run = believed(runId, epoch)
    synchronized(run.ledger.published(epoch, sinks))
  }

  /** What [[settle]] has found. */
  def settled(runId: String, epoch: Long): Seq[StoreCut] = {
    val run = believed(runId, epoch)
    synchronized(run.ledger.settledStores)
  }

  /**
   * Makes durable what [[hold]] has kept of an epoch, and looks whether another driver owns the
   * query by now. When it returns, every store that the epoch's tasks have opened is durable, and
   * the sink may let its output be seen.
   *
   * @param output
   *   by what the sink knows the rows of the epoch, if it has written them already; kept where the
   *   seal is an object
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED; the sink must not write then
   */
  def seal(runId: String, epoch: Long, output: Option[String] = None): Unit = {
    awaitClaim(runId)
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    flush(run, epoch)
    val stores = waited(run, epoch, () => closed(run, epoch, None))
    val decisions = synchronized(run.channels.decisions)
    synchronized(run.at(epoch).sealBy(decisions.nonEmpty)) match {
      case SealBy.Look     => checkOwnerUnless(run, epoch, SealLookNs)
      case SealBy.AnObject =>
        // An epoch that runs again behind its seal is to be cut where it was.
        val own = seal(run, epoch, stores, logs.offsets(epoch))
        writeSeal(run, withFrames(run, own).copy(channels = decisions, output = output))
        // A later owner has seen the object, or else is seen here.
        checkOwner(run, epoch)
    }
    synchronized(run.on(EpochState.Seal(epoch)))
  }

  /**
   * What an earlier run's [[seal]] says of the rows of this epoch, so that its sink need not have
   * them again. None if no run has sealed the epoch, or not of the same input.
   */
  def sealedOutput(runId: String, epoch: Long): Option[String] =
    sealOf(believed(runId, epoch), epoch).flatMap(_.output)

  /**
   * Has an epoch finished from the seal of an earlier run: its tasks, which are to be run once more
   * behind this call, take over the versions that are sealed, and the cut is made of them. For a
   * sink that has the rows of that run, since those of this one need not be the same.
   *
   * @return
   *   false if there is no such seal, so that the epoch is to be run as any other
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_DAMAGED, the seal does not have all of the epoch; CLEANCUT_FENCED
   */
  def finish(runId: String, epoch: Long): Boolean = {
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    val seal = sealOf(run, epoch)
    seal.foreach { from =>
      val missing = lackingIn(from, synchronized(run.ledger.lastCut))
      if (missing.nonEmpty) {
        val detail = s"it does not have ${named(missing)}"
        val name = SealName(epoch, from.run.generation)
        throw Errors.cutDamaged(archive.pathOf(CutLayout.seal(name)), detail)
      }
      checkOwner(run, epoch)
      logger.info(
        s"Finishes epoch $epoch of ${archive.location} from the seal of run ${from.run.runId}"
      )
      synchronized(run.on(EpochState.Finish(from)))
    }
    seal.isDefined
  }

  /** Releases that did not finish epochs left the offsets out. */
  private def sealOf(run: QueryRun, epoch: Long): Option[Cut] =
    synchronized(run.at(epoch).sealedBefore)
      .filter(seal => seal.offsets.nonEmpty && seal.offsets == logs.offsets(epoch))

  private def lackingIn(seal: Cut, previous: Option[Cut]): Set[StoreId] = {
    val stores = previous.toSeq.flatMap(_.stores.map(_.store)).filterNot(Channels.isChannel)
    val inFlight = seal.channels.collect {
      case report if report.deferred.rows > 0 => report.channel
    }
    (stores ++ inFlight).filter(seal.of(_).isEmpty).toSet
  }

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
      plan: => Option[EpochPlan] = None
  ): String = {
    val start = clock.monotonicNs()
    val run = believed(runId, epoch)
    checkOpen(run, epoch)
    // A sink may return without having sealed.
    flush(run, epoch)
    val counted = lateCut(run, epoch, entry).getOrElse(ownCut(run, epoch, entry, plan, start))
    // Before the next epoch is planned: a later owner has seen the cut, or else is seen here.
    checkOwner(run, epoch + 1)
    run.lookedNs = Some(clock.monotonicNs())
    maintain(run, epoch)
    counted.commit
  }

  /** Begins what is due behind an epoch, unless that has to wait. */
  private def maintain(run: QueryRun, epoch: Long): Unit = {
    run.isSweepDue ||= (epoch + 1) % runtime.sweepEpochs == 0 && run.collector.isDue(epoch)
    if (!maintenance.waits(run.wasLate)) {
      synchronized(run.ledger.lastCut).foreach(turnPages(run, _))
      // While a sweep runs, the next one stays due.
      if (run.isSweepDue && run.collector.tryStart()) {
        run.isSweepDue = false
        sweepInBackground(run, epoch)
      }
    }
  }

  /**
   * The cut of a run before this one, which came when this one had begun and has not all that its
   * own would need: its sink has skipped what the other has shown.
   */
  private def lateCut(run: QueryRun, epoch: Long, entry: String): Option[Cut] = {
    // Where Spark counts versions, all tasks of this run have made theirs.
    def mayLack = synchronized(run.at(epoch).isFirst && run.at(epoch).finishing.isEmpty) &&
      CommitEntry.countedIds(entry).isEmpty
    val isToLook = !run.begun.isAlone && mayLack && closed(run, epoch, None).isLeft
    val found =
      if (isToLook) archive.open(epoch).filter(of => isEarlier(run, of.head)).map(_.whole) else None
    found.foreach { cut =>
      logger.info(s"Epoch $epoch of ${archive.location} was committed by run ${cut.run.runId}")
      synchronized(run.advance(cut))
    }
    found
  }

  /**
   * Both have run the same offsets under the same decisions; but of two acts each makes something
   * else.
   */
  private def isEarlier(run: QueryRun, cut: Cut): Boolean =
    !synchronized(
      run.ledger.isReplaced
    ) && cut.run.generation < run.id.generation && cut.offsets == logs.offsets(cut.epoch)

  /** The cut of what this run has made; or that of a run before it, which is as good. */
  private def ownCut(
      run: QueryRun,
      epoch: Long,
      entry: String,
      plan: => Option[EpochPlan],
      start: Long
  ): Cut = {
    val stores = synchronized(run.at(epoch).finishing) match {
      case Some(seal) => finished(run, seal, entry)
      case None       => collected(run, epoch, entry, plan)
    }
    val collectedNs = clock.monotonicNs()
    if (!synchronized(run.at(epoch).isSealed)) checkOwnerUnless(run, epoch, CutLookNs)
    val ownedNs = clock.monotonicNs()
    val offsets = logs.offsets(epoch)
    val readyNs = clock.monotonicNs()
    val used = usage()
    val parts = Seq("collectMs" -> collectedNs, "ownerMs" -> ownedNs, "offsetsMs" -> readyNs)
    val (timings, costs) =
      synchronized((run.meter.timings(start, parts), run.meter.costs(used)))
    val (channels, courses) = synchronized((run.decided(epoch), run.courses(epoch)))
    val whole = Cut(
      epoch,
      run.id,
      StateVersion.newId(clock),
      clock.wallMs(),
      entry,
      offsets,
      stores,
      timings,
      Some(costs),
      channels,
      courses,
      late = synchronized(run.ledger.late)(stores),
      referred = synchronized(run.ledger.referredIn(stores)),
      sinks = synchronized(run.ledger.sinksAfter(epoch))
    )
    val cut = withPages(run, whole)
    val other = if (archive.create(cut)) None else Some(adopted(run, epoch))
    run.collector.committed(epoch)
    val writeNs = clock.monotonicNs() - readyNs
    // Spark names the versions that it has counted, and has the next tasks go on from those.
    val goesOnFromOwn = CommitEntry.countedIds(entry).isDefined
    val next = if (goesOnFromOwn) cut else other.fold(cut)(_.whole)
    val cutMs = TimeUnit.NANOSECONDS.toMillis(writeNs)
    run.wasLate = run.usual.took(timings.get("epochMs").map(_ + cutMs))
    val (tasks, aligned) = synchronized {
      run.advance(next)
      last = Some(CommittedEpoch(cut, cutMs))
      (run.meter.advance(used, writeNs), run.aligned)
    }
    runtime.watcher.foreach { watcher =>
      val weather = watcher.weather()
      val stored = run.stored.map(_.now(used, archive))
      watcher.committed { () =>
        import watcher.{location, name}
        EpochRecord
          .of(location, name, next, Some(cutMs), tasks, aligned, weather)
          .copy(storedBytes = stored, proven = watchedNotes.seen.flatMap(_.proven))
      }
    }
    logger.info(
      s"Epoch $epoch of ${archive.location} is committed: ${stores.size} stores, gate took " +
        s"${msSince(start)} ms"
    )
    other.fold(cut)(_.head)
  }

  /** The cut that is there in the place of this run's. */
  private def adopted(run: QueryRun, epoch: Long): StoredCut = {
    val found = archive.open(epoch)
    found
      .filter(of => isEarlier(run, of.head))
      .getOrElse(throw fencedBy(epoch, found.map(_.head)))
  }

  /** What is sealed, unless Spark goes on from versions of tasks that had run before. */
  private def finished(run: QueryRun, seal: Cut, entry: String): Seq[StoreCut] =
    waited(
      run,
      seal.epoch,
      () => {
        val own = seal.stores.filterNot(of => Channels.isChannel(of.store))
        val others = CommitEntry
          .countedIds(entry)
          .fold(Set.empty[StoreId])(ids =>
            own.filterNot(of => ids(of.version.id)).map(_.store).toSet
          )
        Either.cond(others.isEmpty, seal.stores, others)
      }
    )

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
    def look() = closed(run, epoch, counted)
    val reported = look()
    // Without a cut before it, only tasks tell which stores there are, and some may not have run.
    val isSure =
      reported.isRight && synchronized(run.ledger.lastCut.isDefined || run.ledger.isSettled)
    val sealedStores = synchronized(run.at(epoch).sealedBefore).map(_.stores)
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

  /** The chains after an epoch, computed without the lock. */
  private def closed(
      run: QueryRun,
      epoch: Long,
      counted: Option[Set[String]]
  ): Either[Set[StoreId], Seq[StoreCut]] = {
    val close = synchronized(run.ledger.closing(epoch))
    close(counted)
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
        val stores = synchronized(named(missing, openedBy(run, _)))
        throw Errors.epochIncomplete(archive.location, epoch, stores)
      },
      identity
    )
  }

  /** @param further what to say of each behind its name */
  private def named(stores: Set[StoreId], further: StoreId => String = _ => ""): String = {
    val first = stores.toSeq.sortBy(_.toString).take(Named)
    val more = if (stores.size > Named) s" and ${stores.size - Named} more" else ""
    first.map(store => s"$store${further(store)}").mkString("; ") + more
  }

  private def openedBy(run: QueryRun, store: StoreId): String =
    run.meter.lastOpener(store).fold(" (no task has opened it)") { case (attempt, place) =>
      s" (last opened by task attempt $attempt${place.fold("")(at => s" in $at")})"
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
    if (epoch <= synchronized(run.ledger.lastCommitted)) throw fencedBy(epoch, archive.head(epoch))

  private def fencedBy(epoch: Long, cut: Option[Cut]) = {
    val by = cut.fold("another run")(c => s"generation ${c.run.generation}, run ${c.run.runId},")
    Errors.fenced(archive.location, epoch, s"$by has committed the epoch")
  }

  /** Spares the look where one behind the last cut is not older than this. */
  private def checkOwnerUnless(run: QueryRun, epoch: Long, maxAgeNs: Long): Unit =
    if (!run.lookedNs.exists(clock.monotonicNs() - _ < maxAgeNs)) checkOwner(run, epoch)

  private def sweepInBackground(run: QueryRun, epoch: Long): Unit = {
    val sweep: Runnable = () => {
      maintenance.run(Maintenance.Sweep)(sweepNow(run, epoch))
      leftovers.runIfDue()
    }
    try runtime.background.execute(sweep)
    catch {
      case e: RejectedExecutionException =>
        run.collector.cancel()
        logger.info(s"No sweep of ${archive.location}, as its run has ended: $e")
    }
  }

  private def sweepNow(run: QueryRun, epoch: Long): Unit = {
    val used = usage()
    val served = synchronized(run.servedSeals)
    val (swept, oldest) = run.collector.run(epoch, served.toSeq) { oldest =>
      synchronized(run.ledger.spared(oldest, clock.monotonicNs()))
    }
    synchronized {
      run.ledger.bases.swept(oldest)
      run.forget(served)
    }
    run.stored = swept.keptBytes
      .map(StoredSize.listed(_, used, archive))
      .orElse(run.stored.map(_.minus(swept.deletedBytes)))
    logger.info(
      s"Swept ${swept.cuts} cuts, ${swept.segments} segments, ${swept.pages} pages and " +
        s"${swept.storeFiles} files from before the first cut"
    )
  }

  private def msSince(start: Long): Long =
    TimeUnit.NANOSECONDS.toMillis(clock.monotonicNs() - start)
}

private object EpochGate {
  private val logger = LoggerFactory.getLogger(classOf[QueryCuts])

  private val Retries = 3
  private val FirstWaitMs = 100L
  private val Named = 10

  private val SealLookNs = TimeUnit.SECONDS.toNanos(1)
  private val CutLookNs = TimeUnit.SECONDS.toNanos(10)
}
