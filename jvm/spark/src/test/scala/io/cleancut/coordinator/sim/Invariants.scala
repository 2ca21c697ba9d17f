package io.cleancut.coordinator.sim

import java.nio.charset.StandardCharsets.UTF_8
import java.util.zip.CRC32

import scala.collection.mutable
import scala.util.control.NonFatal

import io.cleancut.base.StoreId
import io.cleancut.cutstore.{CutParts, Owner, StoredCut}
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.{BucketWatch, SimulatedBucket}
import io.cleancut.protocol.OffsetEntry
import io.cleancut.format.{Chains, CutLayout, FrameName, FramePlace, PackedFrames, SealName}
import io.cleancut.format.cut.{Cut, CutPage, PageRef, WindowPart}

/**
 * Checks each change of the bucket, and so the state after every step:
 *   - A cut references existing objects with the bytes of its checksums. The chain of each store
 *     and the in-flight rows of its task are the rows of all epochs up to that of the cut, each
 *     once. Each delta applies to the version before it.
 *   - The rows of a key keep their order, in the state and in the sink.
 *   - The reports of channels in a cut match their frames, and the seal of its run.
 *   - The frames of a task in a cut come from one attempt, and all frames from one run. If Spark
 *     names the versions that it counts, the cut has these versions.
 *   - An entry of Spark's commit log appears after a cut with the same entry.
 *   - After its end marker no cut of a run appears, and no entry whose write has failed may appear.
 *   - Cuts appear in order. No run commits an epoch that another run has committed, or after a
 *     later generation.
 *   - If each run reads other rows, the state of a task has the rows that it has published.
 *   - With each cut the sink has the rows of all epochs up to it, except in-flight rows, each once.
 *   - After the first cut, an epoch that a sink has received is durable and does not run again.
 *   - A process runs one garbage collection at a time.
 *   - No object is written twice with different bytes. No cut within retention is deleted, and no
 *     object that a cut or savepoint references directly or through its bases. Files of stores from
 *     before the first cut are kept while one of their epochs is retained.
 */
final class Invariants(plan: SimPlan, defect: Defect, sink: SimSink) extends BucketWatch {
  import Invariants._

  private val cuts = mutable.TreeMap.empty[Long, Cut]
  private val seals = mutable.Map.empty[SealName, Cut]
  private val savepoints = mutable.Map.empty[String, Cut]
  // Objects that a cut or savepoint references directly and by its pages.
  private val references = mutable.Map.empty[(Long, String), Set[String]]
  private val pinnedCuts = mutable.LinkedHashMap.empty[String, Cut]
  private val ends = mutable.Map.empty[Long, Int]
  // The epochs that operations have planned.
  private val operations = mutable.Set.empty[Long]
  // By epoch of an operation its source epoch; and the epochs of rollbacks.
  private val sources = mutable.Map.empty[Long, Long]
  private val rollbacks = mutable.Set.empty[Long]
  // Epochs whose cuts were expired manually.
  private val expired = mutable.Set.empty[Long]

  // Epochs whose cuts appeared when another run owned the query.
  private val fencedCuts = mutable.Set.empty[Long]

  /** Epochs of cuts that appeared after an operation had skipped the epoch. */
  val late = mutable.Set.empty[Long]

  /** Epochs of the last cuts before rollbacks; their commit entry may never be written. */
  val left = mutable.Set.empty[Long]

  /** Whether the cut of an epoch may be missing. */
  def mayLack(epoch: Long): Boolean = unused(epoch) || expired(epoch)

  /** Whether an operation is incomplete: it has planned an epoch that has no cut. */
  def hasIncompleteOperation: Boolean = operations.exists(_ > last)

  /** Epochs that operations have skipped. */
  val unused = mutable.Set.empty[Long]
  private val committers = mutable.Map.empty[Long, String]
  private val owners = mutable.TreeMap.empty[Long, String]
  private var generation = 0L
  var adopted = 0
  // The generations with an end marker, and the runs whose write of an entry has failed.
  private val ended = mutable.Set.empty[Long]
  private val unanswered = mutable.Set.empty[String]

  /** The run that owns the query. */
  def owner: Option[String] = owners.lastOption.map(_._2)

  /** The write of an entry has failed, and may still take effect. */
  def entryFailed(run: String): Unit = {
    unanswered += run
    ()
  }

  /** Whether a write of an entry by this run has failed. */
  def hasFailed(run: String): Boolean = unanswered(run)

  private def generationOf(run: String): Option[Long] =
    owners.collectFirst { case (generation, `run`) => generation }

  /** The bucket that is checked. */
  var bucket: SimulatedBucket = _
  val violations = mutable.ArrayBuffer.empty[String]

  /** The events of the run, to analyze a failure. */
  val events = mutable.ArrayBuffer.empty[String]
  var last: Long = plan.levelZeroEpochs - 1
  var recovered = 0
  var fenced = 0
  var lost = 0
  var duplicated = 0

  def violated(violation: String): Unit = {
    violations += violation
    happened(s"VIOLATION $violation")
  }

  def happened(event: String): Unit = {
    events += event
    ()
  }

  /** The end of an epoch's rows, exclusive. */
  def end(epoch: Long): Int = if (epoch < 0) 0 else ends(epoch)

  def cut(epoch: Long): Option[Cut] = cuts.get(epoch)

  /** Whether an epoch is planned without new input, and is not committed. */
  def isDrained(epoch: Option[Long]): Boolean =
    epoch.exists(n => n > last && ends.get(n).exists(ends.get(n - 1).contains))

  /** Whether another run has sealed an epoch. */
  def isSealedBefore(epoch: Long, run: String): Boolean =
    seals.values.exists(seal => seal.epoch == epoch && !seal.isClaim && seal.run.runId != run)

  /** Checks a commit that was reported to a driver as successful. */
  def committed(run: String, epoch: Long): Unit = {
    val other = committers.put(epoch, run).filter(_ != run)
    other.foreach(o => violated(s"epoch $epoch was committed by $o and by $run"))
    // A cut that is beyond retention may be deleted already.
    cuts.get(epoch).filter(_.run.runId != run).foreach { cut =>
      // A late cut of an earlier run, which was fenced.
      if (generationOf(run).exists(_ > cut.run.generation)) adopted += 1
      else
        violated(s"$run received the commit of epoch $epoch, which ${cut.run.runId} has committed")
    }
    if (epoch > last)
      violated(s"$run received the commit of epoch $epoch, which has no cut")
  }

  /**
   * Checks an epoch whose tasks run again in the commit, although the sink has received it. After
   * the first cut its frames were durable when the sink was done.
   */
  def ranInCommit(run: String, epoch: Long): Unit =
    if (cuts.contains(epoch - 1)) violated(s"the commit had to run epoch $epoch of $run again")
    else happened(s"the commit runs epoch $epoch of $run")

  /** Checks that the epoch before the one which a sealing sink shows is committed. */
  def checkShown(epoch: Long): Unit =
    if (epoch > last + 1) violated(s"epoch $epoch is shown after epoch $last")

  /** A user has received the creation of a savepoint. */
  def pinned(name: String): Unit = savepoints.get(name) match {
    case Some(cut) =>
      pinnedCuts(name) = cut
      check(cut)
    case None => violated(s"there is no savepoint $name")
  }

  def unpinned(name: String): Unit = pinnedCuts -= name

  def checkPins(existing: Map[String, StoredCut]): Unit = pinnedCuts.foreach { case (name, cut) =>
    if (!existing.get(name).map(_.whole).contains(cut))
      violated(s"the savepoint $name does not exist")
    check(cut)
  }

  override def written(name: String, body: Array[Byte], replaced: Option[Array[Byte]]): Unit = {
    if (replaced.exists(old => !java.util.Arrays.equals(old, body))) {
      violated(s"$name was written again with other bytes")
    }
    name match {
      case SavepointName(savepoint) =>
        savepoints(savepoint) = whole(Cut.parse(savepoint, body))
      case OffsetsName(epoch) =>
        val entry = new String(body, UTF_8)
        if (epoch.toLong > last + 1 && operations.isEmpty && !OffsetEntry.isOfOperation(entry))
          violated(s"epoch $epoch is planned after epoch $last")
        ends(epoch.toLong) = endIn(body)
        planned(epoch.toLong, entry)
      case OwnerName(generation) =>
        val owner = Owner.parse(body)
        if (generation.toLong == owner.generation) owners(owner.generation) = owner.runId
      case CommitsName(epoch) => entered(epoch.toLong, new String(body, UTF_8))
      case SealOf(seal)       =>
        val parsed = Cut.parse(name, body)
        val action = if (parsed.isClaim) "claimed" else "sealed"
        happened(s"epoch ${parsed.epoch} is $action by ${parsed.run.runId}: ${parsed.channels}")
        seals(seal) = parsed
      case EndMarkerName(generation) =>
        owners.get(generation.toLong).filter(unanswered).foreach { run =>
          violated(s"$run records its end, and its entry of the offset log may still appear")
        }
        ended += generation.toLong
      case CutName(cut) if replaced.isEmpty || defect == Defect.NoConditions =>
        val parsed = Cut.parse(cut, body)
        if (ended(parsed.run.generation))
          violated(s"${at(parsed)} appears after the end of the run")
        // A delayed write: its epoch was skipped, or its cut expired, before the write took effect.
        if (mayLack(parsed.epoch)) appearedLate(parsed)
        // A delayed cut beyond retention may appear again, without its segments. The next garbage
        // collection deletes it.
        else if (parsed.epoch >= oldestKept) appeared(whole(parsed))
        else again += parsed.epoch
      case _ => ()
    }
  }

  private def planned(epoch: Long, entry: String): Unit = if (OffsetEntry.isOfOperation(entry)) {
    operations += epoch
    OffsetEntry.source(entry).foreach(sources(epoch) = _)
    if (OffsetEntry.lastBefore(entry).isDefined) rollbacks += epoch
  }

  /** The epochs whose rows a cut has; a rollback skips the epochs after its source. */
  private def lineOf(epoch: Long): Set[Long] =
    Iterator.iterate(epoch)(n => sources.getOrElse(n, n - 1)).takeWhile(_ >= 0).toSet

  // Epochs whose cuts retention has deleted, and that appeared again.
  private val again = mutable.Set.empty[Long]

  /** A manual expiry is about to delete these cuts. */
  def expires(epochs: Seq[Long]): Unit = expired ++= epochs

  // An operation may roll back to them between the choice and the deletion.
  private val chosenStale = mutable.Set.empty[Long]

  /** A garbage collection is about to delete these cuts. */
  def chosen(epochs: Set[Long]): Unit = {
    chosenStale --= epochs
    chosenStale ++= epochs.filter(isStale)
  }

  override def deleted(name: String): Unit = name match {
    case OffsetsName(number) =>
      val epoch = number.toLong
      if (epoch <= last) violated(s"the entry of epoch $epoch was deleted, the last is $last")
      if (!operations(epoch))
        violated(s"the entry of epoch $epoch was deleted, which no operation has made")
      ends -= epoch
      operations -= epoch
      sources -= epoch
      rollbacks -= epoch
    case SealOf(seal) =>
      if (seal.epoch > last) violated(s"the seal $seal was deleted, the last is $last")
      seals -= seal
    case CutName(cut) =>
      CutLayout.parseCut(cut).foreach { epoch =>
        if (epoch >= oldestKept && !expired(epoch) && !late(epoch))
          violated(s"the cut of epoch $epoch was deleted, the last is $last")
        val isKept = !expired(epoch) && !late(epoch) && !isStale(epoch) && !again(epoch)
        if (isKept && !chosenStale(epoch) && isYoung(name))
          violated(s"the cut of epoch $epoch was deleted before its age")
        cuts -= epoch
      }
    case Named(part) =>
      happened(s"$part is deleted")
      cuts.values.filter(referencesOf(_)(part)).foreach { cut =>
        violated(s"$part was deleted, which the cut of epoch ${cut.epoch} names")
      }
      pinnedCuts.filter(pin => referencesOf(pin._2)(part)).foreach { case (savepoint, _) =>
        violated(s"$part was deleted, which the savepoint $savepoint names")
      }
    case SavepointName(savepoint) =>
      if (pinnedCuts.contains(savepoint)) violated(s"the savepoint $savepoint was deleted")
      savepoints -= savepoint
    case StoreFile(version) =>
      if (version.toLong > oldestKept) violated(s"$name was deleted, the last epoch is $last")
    case other => violated(s"$other was deleted")
  }

  /** Checks a cut as a reader does, independent of earlier checks. */
  def check(cut: Cut): Unit = {
    val known = plan.stores ++ plan.stages.flatten.filter(_.isCaptured).map(_.channel)
    cut.stores.map(_.store).diff(known).foreach(s => violated(s"${at(cut)} has $s"))
    checkChannels(cut)
    plan.stores.foreach { store =>
      val (rows, chain) = cut.of(store).fold((Vector.empty[Int], Seq.empty[SimFrame])) { part =>
        val frames = part.frames.flatMap { case (kind, version, place) =>
          frame(cut, FrameName(store, version, kind), place)
        }
        (frames.flatMap(_.rows).toVector, frames)
      }
      val inFlight = rowsIn(cut, SimChannel.of(store.operator.toInt, store.partition))
      checkRows(cut, store, rows ++ inFlight)
      checkChain(cut, store, chain)
    }
    val written = lastFrames(cut).groupBy(_.name.store)
    plan.stages.flatten.foreach(checkTask(cut, _, written))
  }

  /**
   * Unreferenced segments that are too old to be referenced by a later cut. Segments of a savepoint
   * are referenced even if its writer received no response: it is listed under its name and can be
   * dropped.
   */
  def orphans(names: Seq[String]): Seq[String] = {
    val named = (cuts.values ++ savepoints.values).flatMap(referencesOf).toSet
    names.collect { case Named(part) => part }.filter { part =>
      val epoch = CutLayout.parseSegment(part).orElse(CutLayout.parsePage(part))
      !named(part) && epoch.exists(_ < oldestKept - plan.baseMargin)
    }
  }

  /** The pages and segments that a cut references. */
  private def referencesOf(cut: Cut): Set[String] =
    references.getOrElse((cut.epoch, cut.token), cut.segments.toSet)

  /** A cut with its chains, as the bucket has them now. */
  def whole(cut: Cut): Cut = {
    val stored = new StoredCut(cut, at(cut), new BucketParts(cut))
    try {
      val complete = stored.whole
      references((cut.epoch, cut.token)) = stored.segments ++ stored.pages ++ referredBy(complete)
      complete
    } catch {
      case e: CleancutException =>
        violated(e.getMessage)
        cut
    }
  }

  final private class BucketParts(cut: Cut) extends CutParts {
    override def page(ref: PageRef): CutPage =
      CutParts.page(ref.name, ref, body(ref.name))

    override def table(part: WindowPart): PackedFrames =
      CutParts.table(part.segment, part, body(part.segment).takeRight(part.end.footerBytes))

    private def body(name: String): Array[Byte] =
      bucket.get(s"${Names.Root}$name").map(_.body).getOrElse {
        throw Errors.cutCorrupted(at(cut), s"it names $name, which is not there")
      }
  }

  private def oldestKept = last - plan.keep

  /** Retention time of cuts by the clock of the object store, in milliseconds. */
  var keptMs = 0L

  /** The current time of the object store. */
  var nowMs: () => Long = () => 0L

  private def isYoung(name: String) =
    keptMs > 0L && bucket.get(name).exists(_.modifiedMs > nowMs() - keptMs)

  /** Checks an entry of Spark's commit log that appears as a file. */
  private def entered(epoch: Long, entry: String): Unit =
    // An entry that is delayed until its cut is beyond retention is harmless.
    if (epoch >= plan.levelZeroEpochs && epoch >= oldestKept) {
      if (!plan.isOnFiles) violated(s"an entry of epoch $epoch appears in addition to its cut")
      if (!cuts.get(epoch).exists(_.commit == entry)) {
        violated(s"an entry of epoch $epoch appears that its cut does not have: $entry")
      }
    }

  /**
   * Records a cut of a fenced run whose epoch an operation has skipped or an expiry has deleted:
   * the run had checked its ownership before. No run continues from it, and objects that it
   * references may be deleted.
   */
  private def appearedLate(cut: Cut): Unit = {
    if (cut.run.generation > generation) violated(s"${at(cut)} is late, of $generation")
    happened(s"${at(cut)} appears after that of $last")
    late += cut.epoch
    ()
  }

  /** Whether the cut is of a fenced run, and no later cut has its rows. */
  def isStale(epoch: Long): Boolean = fencedCuts(epoch) && !lineOf(last)(epoch)

  private def appeared(cut: Cut): Unit = {
    if (owners.lastOption.exists(_._1 > cut.run.generation)) fencedCuts += cut.epoch
    // An operation skips one epoch and the epochs of incomplete operations. A rollback also skips
    // the epoch that the query has begun.
    def mayBegin(epoch: Long) = operations(epoch) || !ends.contains(epoch)
    val isRollback = rollbacks(cut.epoch)
    def areUnused = operations(if (isRollback) cut.epoch - 1 else last + 1) &&
      (last + 1 until cut.epoch).forall(epoch =>
        mayBegin(epoch) || (isRollback && epoch == last + 1)
      )
    val isNext = cut.epoch == last + 1 || (operations(cut.epoch) && cut.epoch > last && areUnused)
    if (!isNext) violated(s"the cut of epoch ${cut.epoch} follows that of $last")
    unused ++= last + 1 until cut.epoch
    if (isRollback) left += last
    if (cut.run.generation < generation) {
      violated(s"${at(cut)} is of generation ${cut.run.generation}, after $generation")
    }
    happened(s"${at(cut)} of generation ${cut.run.generation} appears")
    generation = cut.run.generation
    last = cut.epoch
    cuts(cut.epoch) = cut
    check(cut)
    plan.stages.flatten.foreach(checkSink(cut, _))
    if (plan.isUnsteady) plan.stages.flatten.foreach(checkShown(cut, _))
    val runs = lastFrames(cut).map(_.run).distinct
    if (runs.size > 1) violated(s"${at(cut)} has frames of the runs ${runs.mkString(", ")}")
    if (runs.exists(_ != cut.run.runId)) recovered += 1
  }

  private def rowsIn(cut: Cut, channel: StoreId): Vector[Int] =
    cut.of(channel).fold(Vector.empty[Int]) { part =>
      val (kind, version, place) = part.frames.last
      if (part.frames.size > 1) violated(s"${at(cut)} has a chain for $channel")
      if (version.number != cut.epoch + 1) violated(s"${at(cut)} has $version of $channel")
      frame(cut, FrameName(channel, version, kind), place).fold(Vector.empty[Int])(_.rows)
    }

  private def checkChannels(cut: Cut): Unit = {
    val reported = cut.channels.map(report => report.channel -> report.deferred).toMap
    (reported.keySet ++ cut.inFlight.map(_.store)).foreach { channel =>
      val held = SimChannel.digest(rowsIn(cut, channel))
      if (!reported.get(channel).contains(held)) {
        violated(s"${at(cut)} has $held in $channel, and reports ${reported.get(channel)}")
      }
    }
    seals.get(SealName(cut.epoch, cut.run.generation)).filterNot(_.isClaim).foreach { seal =>
      if (seal.channels.toSet != cut.channels.toSet) {
        violated(s"${at(cut)} was sealed as ${seal.channels}, and has ${cut.channels}")
      }
    }
  }

  /** Checks the rows of the sink at the cut of their epoch. */
  private def checkSink(cut: Cut, task: SimTask): Unit = {
    val before = plan.levelZeroEpochs - 1
    val shown = sink.shown(task, lineOf(cut.epoch)).map(SimPlan.numberOf)
    val delivered = shown ++ rowsIn(cut, task.channel).map(SimPlan.numberOf)
    val wanted = plan.rowsOf(task.partition, end(before), end(cut.epoch))
    val (missing, more) = (wanted.diff(delivered), delivered.diff(wanted))
    lost += missing.size
    duplicated += more.size
    checkOrder(s"at ${at(cut)} the sink", delivered, inOrder(cut, task.partition))
    if (missing.nonEmpty || more.nonEmpty) {
      violated(s"at ${at(cut)} the sink has rows of $task twice: $more, and lacks $missing")
    }
  }

  private def checkShown(cut: Cut, task: SimTask): Unit = {
    def marked(rows: Vector[Int]) = rows.filter(row => row != SimPlan.numberOf(row)).sorted
    val shown = marked(sink.shown(task, lineOf(cut.epoch)))
    task.stores.foreach { store =>
      val rows = cut.of(store).toVector.flatMap { part =>
        part.frames.flatMap { case (kind, version, place) =>
          frame(cut, FrameName(store, version, kind), place).toVector.flatMap(_.rows)
        }
      }
      if (marked(rows) != shown) {
        violated(s"${at(cut)} has other rows than were shown of $store: $rows, and $shown")
      }
    }
  }

  private def checkRows(cut: Cut, store: StoreId, stored: Vector[Int]): Unit = {
    val rows = stored.map(SimPlan.numberOf)
    val wanted = plan.rowsOf(store.partition, 0, end(cut.epoch))
    val (missing, more) = (wanted.diff(rows), rows.diff(wanted))
    lost += missing.size
    duplicated += more.size
    val before = plan.rowsOf(store.partition, 0, end(plan.levelZeroEpochs - 1))
    checkOrder(s"${at(cut)}, $store,", rows, before ++ inOrder(cut, store.partition))
    if (cut.of(store).isEmpty) violated(s"${at(cut)} lacks $store")
    if (missing.nonEmpty) violated(s"${at(cut)} has lost rows of $store: $missing")
    if (more.nonEmpty) violated(s"${at(cut)} has too many rows of $store: $more")
  }

  /** The rows of a partition since the first cut, sorted within each epoch. */
  private def inOrder(cut: Cut, partition: Int): Vector[Int] = {
    val first = plan.levelZeroEpochs
    val epochs = (first - 1) +: lineOf(cut.epoch).toVector.sorted.filter(_ >= first)
    epochs.zip(epochs.drop(1)).flatMap { case (before, epoch) =>
      plan.rows.sorted(plan.rowsOf(partition, end(before), end(epoch)))
    }
  }

  /** Checks the order of rows if none is missing. */
  private def checkOrder(subject: String, rows: Vector[Int], wanted: Vector[Int]): Unit =
    if (plan.rows.isGrouped && rows.sorted == wanted.sorted) {
      val (actual, expected) = (plan.rows.byKey(rows), plan.rows.byKey(wanted))
      if (actual != expected)
        violated(s"$subject has rows out of order: $actual instead of $expected")
    }

  private def checkChain(cut: Cut, store: StoreId, chain: Seq[SimFrame]): Unit = {
    chain.zip(chain.drop(1)).foreach { case (before, after) =>
      if (!after.parent.contains(before.name.version.id)) {
        violated(s"${at(cut)}: ${after.name} does not apply to ${before.name}")
      }
    }
    chain.headOption.filter(_.parent.isDefined).foreach { head =>
      violated(s"${at(cut)}: the chain of $store begins with ${head.name}")
    }
    chain.lastOption.filter(_.name.version.number != cut.epoch + 1).foreach { end =>
      violated(s"${at(cut)}: the chain of $store ends with ${end.name}")
    }
  }

  private def checkTask(cut: Cut, task: SimTask, written: Map[StoreId, Seq[SimFrame]]): Unit = {
    val ofTask = task.stores :+ task.channel
    val writers = ofTask.flatMap(written.getOrElse(_, Nil)).map(_.writer)
    if (writers.distinct.size > 1) {
      violated(s"${at(cut)} has a task of several attempts: ${writers.mkString(", ")}")
    }
    val counted = CommitIds.in(cut.commit)
    val ids = task.stores.flatMap(cut.of).map(_.version.id)
    if (plan.isFormat2 && !ids.forall(counted)) {
      violated(s"${at(cut)} has versions that Spark did not count: $ids instead of $counted")
    }
  }

  /** The frames of the epoch of the cut; maintenance replaces only frames of older versions. */
  private def lastFrames(cut: Cut): Seq[SimFrame] = cut.stores.flatMap { part =>
    val (kind, version, place) = part.frames.last
    frame(cut, FrameName(part.store, version, kind), place)
  }

  private def frame(cut: Cut, name: FrameName, place: FramePlace): Option[SimFrame] =
    stored(cut, name, place).map(_.followed(stored(cut, _, _)))

  /** The segments that the bases at the start of its chains refer to. */
  private def referredBy(cut: Cut): Set[String] = {
    def under(store: StoreId, frames: Seq[Chains.Frame]): Seq[String] = frames.flatMap {
      case (kind, version, place) =>
        stored(cut, FrameName(store, version, kind), place).toSeq.flatMap { frame =>
          frame.source.map(_._3.segment) ++ under(store, frame.source)
        }
    }
    cut.stores.flatMap(chain => under(chain.store, chain.frames.take(1))).toSet
  }

  private def stored(cut: Cut, name: FrameName, place: FramePlace): Option[SimFrame] = {
    val bytes = bucket.get(s"${Names.Root}${place.segment}").map { stored =>
      stored.body.slice(place.offset.toInt, (place.offset + place.length).toInt)
    }
    val crc = new CRC32
    bytes.foreach(crc.update(_))
    val frame =
      try bytes.map(SimFrame.parse)
      catch { case NonFatal(_) => None }
    if (bytes.isEmpty) violated(s"${at(cut)} names ${place.segment}, which is not there")
    else if (crc.getValue.toInt != place.crc) violated(s"${at(cut)}: wrong bytes of $name")
    else if (!frame.exists(_.name == name)) violated(s"${at(cut)}: $frame instead of $name")
    frame
  }

  private def at(cut: Cut) = s"the cut of epoch ${cut.epoch} by ${cut.run.runId}"
}

private object Invariants {
  private val OwnerName = s"${Names.Root}owners/0*(\\d+)[.]json".r
  private val EndMarkerName = s"${Names.Root}owners/0*(\\d+)[.]ended".r
  private val OffsetsName = s"${Names.Checkpoint}offsets/(\\d+)".r
  private val CommitsName = s"${Names.Checkpoint}commits/(\\d+)".r
  private val CutName = s"${Names.Root}cuts/(.*)".r
  private val SavepointName = s"${Names.Root}savepoints/(.*)[.]cut".r
  private val StoreFile = s"${Names.Root}stores/.*/0*(\\d+)-[0-9a-f]{32}[.]delta".r
  private val Named = s"${Names.Root}((?:segments|pages)/.*)".r

  private object SealOf {
    private val Cuts = s"${Names.Root}${CutLayout.Cuts}"

    def unapply(name: String): Option[SealName] =
      Option.when(name.startsWith(Cuts))(name.stripPrefix(Cuts)).flatMap(CutLayout.parseSeal)
  }

  def endIn(offsets: Array[Byte]): Int = new String(offsets, UTF_8).linesIterator.toSeq.last.toInt
}
