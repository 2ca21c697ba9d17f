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
 * Checks every change of the bucket as it happens, and so the state after every step:
 *   - A cut names objects that are there, with the bytes that it says. Of every store its chain and
 *     the rows in flight to its task make the rows of all epochs up to its own, each once, and
 *     every delta applies to the version before it.
 *   - The rows of a key keep their order, in the state and in the sink.
 *   - What a cut says of its channels is what their frames hold, and what the seal of its run said.
 *   - The frames of a task in a cut come from one attempt, all of them from one run; where Spark
 *     named the versions that it counted, from those.
 *   - An entry of Spark's commit log is that of a cut, which was there before.
 *   - Cuts appear one behind the other. No run commits what another has committed, nor behind a
 *     later generation.
 *   - Where each run finds other rows, the state of a task has those that it has shown.
 *   - With each cut the sink has the rows of all epochs up to it but those in flight, each once.
 *   - What a sink has seen of an epoch behind the first cut is durable, and is not made again.
 *   - A process runs one sweep at a time.
 *   - Nothing is written twice with other bytes. No cut within retention is deleted, nor anything
 *     that a cut or a savepoint names, or its bases refer to, nor files of stores from before the
 *     first cut while an epoch of theirs is kept.
 */
final class Invariants(plan: SimPlan, defect: Defect, sink: SimSink) extends BucketWatch {
  import Invariants._

  private val cuts = mutable.TreeMap.empty[Long, Cut]
  private val seals = mutable.Map.empty[SealName, Cut]
  private val savepoints = mutable.Map.empty[String, Cut]
  // What a cut of an epoch, or a savepoint, names directly and by its pages.
  private val needs = mutable.Map.empty[(Long, String), Set[String]]
  private val pins = mutable.LinkedHashMap.empty[String, Cut]
  private val ends = mutable.Map.empty[Long, Int]
  // The epochs planned by acts.
  private val acts = mutable.Set.empty[Long]
  // Of an act's epoch that of which it is made, and of one that goes back the last before it.
  private val sources = mutable.Map.empty[Long, Long]
  private val backs = mutable.Set.empty[Long]
  // Whose cuts somebody has given up by hand.
  private val expired = mutable.Set.empty[Long]

  // Whose cuts appeared when another run owned the query.
  private val followed = mutable.Set.empty[Long]

  /** The epochs of cuts that appeared when an act had left them behind. */
  val late = mutable.Set.empty[Long]

  /** The epochs of last cuts that acts have gone back from, whose entry may never be written. */
  val left = mutable.Set.empty[Long]

  /** Whether nothing says that an epoch's cut must be there. */
  def mayLack(epoch: Long): Boolean = unused(epoch) || expired(epoch)

  /** Whether an act has planned an epoch that has no cut. */
  def isLeftByAct: Boolean = acts.exists(_ > last)

  /** The numbers of epochs that acts have left out. */
  val unused = mutable.Set.empty[Long]
  private val committers = mutable.Map.empty[Long, String]
  private val owners = mutable.TreeMap.empty[Long, String]
  private var generation = 0L
  var adopted = 0

  /** The run that owns the query. */
  def owner: Option[String] = owners.lastOption.map(_._2)

  private def generationOf(run: String): Option[Long] =
    owners.collectFirst { case (generation, `run`) => generation }

  /** The objects to look into. */
  var bucket: SimulatedBucket = _
  val violations = mutable.ArrayBuffer.empty[String]

  /** What happened, for whoever looks into a run. */
  val events = mutable.ArrayBuffer.empty[String]
  var last: Long = plan.levelZeroEpochs - 1
  var recovered = 0
  var fenced = 0
  var lost = 0
  var doubled = 0

  def violated(what: String): Unit = {
    violations += what
    happened(s"VIOLATION $what")
  }

  def happened(event: String): Unit = {
    events += event
    ()
  }

  /** The end of an epoch's rows, exclusive. */
  def end(epoch: Long): Int = if (epoch < 0) 0 else ends(epoch)

  def cut(epoch: Long): Option[Cut] = cuts.get(epoch)

  /** Whether an epoch is planned that takes no new input, which is not committed. */
  def isDrained(epoch: Option[Long]): Boolean =
    epoch.exists(of => of > last && ends.get(of).exists(ends.get(of - 1).contains))

  /** Whether another run has sealed an epoch. */
  def isSealedBefore(epoch: Long, run: String): Boolean =
    seals.values.exists(seal => seal.epoch == epoch && !seal.isClaim && seal.run.runId != run)

  /** A driver was told that its commit succeeded. */
  def committed(run: String, epoch: Long): Unit = {
    val other = committers.put(epoch, run).filter(_ != run)
    other.foreach(o => violated(s"epoch $epoch was committed by $o and by $run"))
    // A cut that is beyond retention may be gone already.
    cuts.get(epoch).filter(_.run.runId != run).foreach { cut =>
      // One that came late from a run before, which was told that it is followed.
      if (generationOf(run).exists(_ > cut.run.generation)) adopted += 1
      else violated(s"$run was told that it has committed epoch $epoch, but ${cut.run.runId} has")
    }
    if (epoch > last)
      violated(s"$run was told that it has committed epoch $epoch, which has no cut")
  }

  /**
   * The gate makes an epoch again that the sink has seen. Behind the first cut its tasks were
   * durable when the sink was done, whether or not each of them waited for it.
   */
  def ranByGate(run: String, epoch: Long): Unit =
    if (cuts.contains(epoch - 1)) violated(s"the gate had to run epoch $epoch of $run again")
    else happened(s"the gate runs epoch $epoch of $run")

  /** A user was told that a cut is kept under this name from now on. */
  def pinned(name: String): Unit = savepoints.get(name) match {
    case Some(cut) =>
      pins(name) = cut
      check(cut)
    case None => violated(s"there is no savepoint $name")
  }

  def unpinned(name: String): Unit = pins -= name

  def checkPins(found: Map[String, StoredCut]): Unit = pins.foreach { case (name, cut) =>
    if (!found.get(name).map(_.whole).contains(cut)) violated(s"the savepoint $name is not there")
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
        ends(epoch.toLong) = endIn(body)
        planned(epoch.toLong, new String(body, UTF_8))
      case OwnerName(note) =>
        val owner = Owner.parse(body)
        if (note.toLong == owner.generation) owners(owner.generation) = owner.runId
      case CommitsName(epoch) => entered(epoch.toLong, new String(body, UTF_8))
      case SealOf(seal)       =>
        val parsed = Cut.parse(name, body)
        val what = if (parsed.isClaim) "claimed" else "sealed"
        happened(s"epoch ${parsed.epoch} is $what by ${parsed.run.runId}: ${parsed.channels}")
        seals(seal) = parsed
      case CutName(cut) if replaced.isEmpty || defect == Defect.NoConditions =>
        val parsed = Cut.parse(cut, body)
        // Its epoch was left behind, or its cut given up, before a write came that was held up.
        if (mayLack(parsed.epoch)) appearedLate(parsed)
        // A cut beyond retention may appear again likewise. The next sweep takes it.
        else {
          val found = whole(parsed)
          if (found.epoch >= oldestKept) appeared(found)
        }
      case _ => ()
    }
  }

  private def planned(epoch: Long, entry: String): Unit = if (OffsetEntry.isOfOperation(entry)) {
    acts += epoch
    OffsetEntry.source(entry).foreach(sources(epoch) = _)
    if (OffsetEntry.lastBefore(entry).isDefined) backs += epoch
  }

  /** The epochs whose rows a cut has: an act that goes back leaves those between behind. */
  private def lineOf(epoch: Long): Set[Long] =
    Iterator.iterate(epoch)(of => sources.getOrElse(of, of - 1)).takeWhile(_ >= 0).toSet

  /** Somebody is about to give these cuts up by hand. */
  def expires(epochs: Seq[Long]): Unit = expired ++= epochs

  // An operation may go back to them between the choice and the deletion.
  private val chosenLeftBehind = mutable.Set.empty[Long]

  /** A garbage collection is about to delete these cuts. */
  def chosen(epochs: Set[Long]): Unit = {
    chosenLeftBehind --= epochs
    chosenLeftBehind ++= epochs.filter(isLeftBehind)
  }

  override def deleted(name: String): Unit = name match {
    case OffsetsName(of) =>
      val epoch = of.toLong
      if (epoch <= last) violated(s"the entry of epoch $epoch was taken away, the last is $last")
      if (!acts(epoch)) violated(s"the entry of epoch $epoch was taken away, which no act has made")
      ends -= epoch
      acts -= epoch
      sources -= epoch
      backs -= epoch
    case SealOf(seal) =>
      if (seal.epoch > last) violated(s"the seal $seal was deleted, the last is $last")
      seals -= seal
    case CutName(cut) =>
      CutLayout.parseCut(cut).foreach { epoch =>
        if (epoch >= oldestKept && !expired(epoch) && !late(epoch))
          violated(s"the cut of epoch $epoch was deleted, the last is $last")
        val isKept = !expired(epoch) && !late(epoch) && !isLeftBehind(epoch)
        if (isKept && !chosenLeftBehind(epoch) && isYoung(name))
          violated(s"the cut of epoch $epoch was deleted before its age")
        cuts -= epoch
      }
    case Named(part) =>
      happened(s"$part is deleted")
      cuts.values.filter(needsOf(_)(part)).foreach { cut =>
        violated(s"$part was deleted, which the cut of epoch ${cut.epoch} names")
      }
      pins.filter(pin => needsOf(pin._2)(part)).foreach { case (savepoint, _) =>
        violated(s"$part was deleted, which the savepoint $savepoint names")
      }
    case SavepointName(savepoint) =>
      if (pins.contains(savepoint)) violated(s"the savepoint $savepoint was deleted")
      savepoints -= savepoint
    case StoreFile(version) =>
      if (version.toLong > oldestKept) violated(s"$name was deleted, the last epoch is $last")
    case other => violated(s"$other was deleted")
  }

  /** Checks a cut as a reader would, whatever has been found out before. */
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
   * Segments that lie too far back to be named by a later cut, and are named by none. Those of a
   * savepoint are not among them, even if its writer got no answer: it shows under its name, and
   * can be given up.
   */
  def orphans(names: Seq[String]): Seq[String] = {
    val named = (cuts.values ++ savepoints.values).flatMap(needsOf).toSet
    names.collect { case Named(part) => part }.filter { part =>
      val epoch = CutLayout.parseSegment(part).orElse(CutLayout.parsePage(part))
      !named(part) && epoch.exists(_ < oldestKept - plan.baseMargin)
    }
  }

  /** What is lost with the name of a page or a segment. */
  private def needsOf(cut: Cut): Set[String] =
    needs.getOrElse((cut.epoch, cut.token), cut.segments.toSet)

  /** A cut with its chains, as the bucket has them at this moment. */
  def whole(cut: Cut): Cut = {
    val stored = new StoredCut(cut, at(cut), new BucketParts(cut))
    try {
      val found = stored.whole
      needs((cut.epoch, cut.token)) = stored.segments ++ stored.pages ++ referredBy(found)
      found
    } catch {
      case e: CleancutException =>
        violated(e.getMessage)
        cut
    }
  }

  final private class BucketParts(cut: Cut) extends CutParts {
    override def page(of: PageRef): CutPage =
      CutParts.page(of.name, of, body(of.name))

    override def table(of: WindowPart): PackedFrames =
      CutParts.table(of.segment, of, body(of.segment).takeRight(of.end.footerBytes))

    private def body(name: String): Array[Byte] =
      bucket.get(s"${Names.Root}$name").map(_.body).getOrElse {
        throw Errors.cutCorrupted(at(cut), s"it names $name, which is not there")
      }
  }

  private def oldestKept = last - plan.keep

  /** Up to which age, by the clock of the store, a cut is kept. */
  var keptMs = 0L

  /** The present time of the store. */
  var nowMs: () => Long = () => 0L

  private def isYoung(name: String) =
    keptMs > 0L && bucket.get(name).exists(_.modifiedMs > nowMs() - keptMs)

  /** Spark's entry of an epoch appears as a file. */
  private def entered(epoch: Long, entry: String): Unit =
    // One that was held up until its cut is beyond retention is no harm.
    if (epoch >= plan.levelZeroEpochs && epoch >= oldestKept) {
      if (!plan.isOnFiles) violated(s"an entry of epoch $epoch appears beside its cut")
      if (!cuts.get(epoch).exists(_.commit == entry)) {
        violated(s"an entry of epoch $epoch appears that its cut does not have: $entry")
      }
    }

  /**
   * A run that was followed commits what an act has left behind, or what was given up since: it had
   * looked for a later owner before. Nobody goes on from there, and what it leads to may be gone.
   */
  private def appearedLate(cut: Cut): Unit = {
    if (cut.run.generation > generation) violated(s"${at(cut)} is late, of $generation")
    happened(s"${at(cut)} appears, behind that of $last")
    late += cut.epoch
    ()
  }

  /** Whether the cut is of a run that had been followed, and no later cut has its rows. */
  def isLeftBehind(epoch: Long): Boolean = followed(epoch) && !lineOf(last)(epoch)

  private def appeared(cut: Cut): Unit = {
    if (owners.lastOption.exists(_._1 > cut.run.generation)) followed += cut.epoch
    // An act leaves numbers unused: one, and those of acts that were not done; and one that goes
    // back what the query has begun.
    def mayBegin(of: Long) = acts(of) || !ends.contains(of)
    val isBack = backs(cut.epoch)
    def areUnused = acts(if (isBack) cut.epoch - 1 else last + 1) &&
      (last + 1 until cut.epoch).forall(of => mayBegin(of) || (isBack && of == last + 1))
    val isNext = cut.epoch == last + 1 || (acts(cut.epoch) && cut.epoch > last && areUnused)
    if (!isNext) violated(s"the cut of epoch ${cut.epoch} follows that of $last")
    unused ++= last + 1 until cut.epoch
    if (isBack) left += last
    if (cut.run.generation < generation) {
      violated(s"${at(cut)} is of generation ${cut.run.generation}, behind $generation")
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
    val told = cut.channels.map(report => report.channel -> report.deferred).toMap
    (told.keySet ++ cut.inFlight.map(_.store)).foreach { channel =>
      val held = SimChannel.digest(rowsIn(cut, channel))
      if (!told.get(channel).contains(held)) {
        violated(s"${at(cut)} has $held in $channel, and says ${told.get(channel)}")
      }
    }
    seals.get(SealName(cut.epoch, cut.run.generation)).filterNot(_.isClaim).foreach { seal =>
      if (seal.channels.toSet != cut.channels.toSet) {
        violated(s"${at(cut)} was sealed as ${seal.channels}, and says ${cut.channels}")
      }
    }
  }

  /** An epoch is shown before it is committed. */
  private def checkSink(cut: Cut, task: SimTask): Unit = {
    val before = plan.levelZeroEpochs - 1
    val shown = sink.shown(task, lineOf(cut.epoch)).map(SimPlan.numberOf)
    val found = shown ++ rowsIn(cut, task.channel).map(SimPlan.numberOf)
    val wanted = plan.rowsOf(task.partition, end(before), end(cut.epoch))
    val (missing, more) = (wanted.diff(found), found.diff(wanted))
    lost += missing.size
    doubled += more.size
    checkOrder(s"at ${at(cut)} the sink", found, inOrder(cut, task.partition))
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

  private def checkRows(cut: Cut, store: StoreId, found: Vector[Int]): Unit = {
    val rows = found.map(SimPlan.numberOf)
    val wanted = plan.rowsOf(store.partition, 0, end(cut.epoch))
    val (missing, more) = (wanted.diff(rows), rows.diff(wanted))
    lost += missing.size
    doubled += more.size
    val before = plan.rowsOf(store.partition, 0, end(plan.levelZeroEpochs - 1))
    checkOrder(s"${at(cut)}, $store,", rows, before ++ inOrder(cut, store.partition))
    if (cut.of(store).isEmpty) violated(s"${at(cut)} lacks $store")
    if (missing.nonEmpty) violated(s"${at(cut)} has lost rows of $store: $missing")
    if (more.nonEmpty) violated(s"${at(cut)} has too many rows of $store: $more")
  }

  /** Rows of a partition since the first cut, sorted in each epoch. */
  private def inOrder(cut: Cut, partition: Int): Vector[Int] = {
    val first = plan.levelZeroEpochs
    val epochs = (first - 1) +: lineOf(cut.epoch).toVector.sorted.filter(_ >= first)
    epochs.zip(epochs.drop(1)).flatMap { case (before, epoch) =>
      plan.rows.sorted(plan.rowsOf(partition, end(before), end(epoch)))
    }
  }

  /** Only where all of them are there. */
  private def checkOrder(what: String, rows: Vector[Int], wanted: Vector[Int]): Unit =
    if (plan.rows.isGrouped && rows.sorted == wanted.sorted) {
      val (found, expected) = (plan.rows.byKey(rows), plan.rows.byKey(wanted))
      if (found != expected) violated(s"$what has rows out of order: $found instead of $expected")
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

  /** What the epoch itself wrote; maintenance replaces frames of older versions only. */
  private def lastFrames(cut: Cut): Seq[SimFrame] = cut.stores.flatMap { part =>
    val (kind, version, place) = part.frames.last
    frame(cut, FrameName(part.store, version, kind), place)
  }

  private def frame(cut: Cut, name: FrameName, place: FramePlace): Option[SimFrame] =
    stored(cut, name, place).map(_.followed(stored(cut, _, _)))

  /** The segments that the bases lead to with which its chains begin. */
  private def referredBy(cut: Cut): Set[String] = {
    def under(store: StoreId, frames: Seq[Chains.Frame]): Seq[String] = frames.flatMap {
      case (kind, version, place) =>
        stored(cut, FrameName(store, version, kind), place).toSeq.flatMap { of =>
          of.source.map(_._3.segment) ++ under(store, of.source)
        }
    }
    cut.stores.flatMap(of => under(of.store, of.frames.take(1))).toSet
  }

  private def stored(cut: Cut, name: FrameName, place: FramePlace): Option[SimFrame] = {
    val bytes = bucket.get(s"${Names.Root}${place.segment}").map { stored =>
      stored.body.slice(place.offset.toInt, (place.offset + place.length).toInt)
    }
    val crc = new CRC32
    bytes.foreach(crc.update(_))
    val found =
      try bytes.map(SimFrame.parse)
      catch { case NonFatal(_) => None }
    if (bytes.isEmpty) violated(s"${at(cut)} names ${place.segment}, which is not there")
    else if (crc.getValue.toInt != place.crc) violated(s"${at(cut)}: wrong bytes of $name")
    else if (!found.exists(_.name == name)) violated(s"${at(cut)}: $found instead of $name")
    found
  }

  private def at(cut: Cut) = s"the cut of epoch ${cut.epoch} by ${cut.run.runId}"
}

private object Invariants {
  private val OwnerName = s"${Names.Root}owners/0*(\\d+)[.]json".r
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
