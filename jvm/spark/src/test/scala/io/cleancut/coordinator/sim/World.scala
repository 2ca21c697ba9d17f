package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.Random

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.{StaleOwnerStore, ForwardingStore}
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.format.{CutLayout, FrameKind, StoreLayout}
import io.cleancut.format.cut.{Counted, Cut}
import io.cleancut.objectstore.{
  CreateResult,
  ObjectInfo,
  ObjectKey,
  ObjectStore,
  SimulatedBucket,
  SimulatedDisk,
  SimulatedFiles,
  SimulatedStore,
  WriterToken
}
import io.cleancut.testkit.Seeded

/** The state that the actors of one run of the simulation share. */
final class World(val seed: Long, val defect: Defect, tasks: Option[Int]) {
  import World._

  val random: Random = Seeded.random(seed)

  // Runs with operations by reference have separate draws, so that other draws do not change.
  private val ofStalls = randomOf(seed, "references")

  /** Whether operations refer to old cuts, of which later cuts reference few segments. */
  val hasReferences: Boolean = Defect.ofReferences(defect) ||
    defect == Defect.None && ofStalls.nextInt(ReferencesEvery) == 0

  private val ofLeftovers = randomOf(seed, "leftovers")

  private val rows = {
    val ofRows = randomOf(seed, "rows")
    val isDrawn = defect == Defect.None && ofRows.nextInt(GroupedEvery) == 0
    val drawn = SimRows.draw(ofRows)
    if (defect == Defect.KeySorted) drawn.copy(isSorted = true, splitsGroups = true)
    else if (defect == Defect.FirstEqual) drawn.copy(isSorted = false)
    else if (isDrawn || Defect.ofOrder(defect)) drawn
    else SimRows.Single
  }

  val plan = new SimPlan(random, hasReferences, rows, tasks)
  val baton = new Baton(random, MaxSteps + tasks.fold(0L)(_ * StepsPerTask))
  val clock = new SimClock(random, baton)
  val faults = new Faults(random)
  val sink = new SimSink
  val invariants = new Invariants(plan, defect, sink)

  private val bucket = new SimulatedBucket(
    invariants,
    name => defect != Defect.NoConditions || !name.startsWith(s"${Names.Root}cuts/")
  )
  invariants.bucket = bucket
  private var attempts = 0L
  private var slowSeals = 0
  private var freezes = MaxFreezes
  private var isHeldBack = false
  private var processes = 0

  /** Whether a slow seal is in transit. */
  def isSealing: Boolean = slowSeals > 0

  /** Whether a driver is stopped before the write of its seal. */
  var isFrozen = false

  /** Lets the stopped driver continue. */
  def thaw(): Unit = isHeldBack = false

  /** The garbage collection that is stopped now, if any. */
  var stall = Option.empty[SweepStall]
  private var stalls = if (hasReferences) MaxStalls else 0

  /** Stops no garbage collection from now on. */
  def endStalls(): Unit = {
    stalls = 0
    stall.foreach(_.isReleased = true)
  }

  /** Stops the garbage collection that is about to delete these cuts. */
  def mayStall(epochs: Set[Long]): Unit =
    if (stall.isEmpty && stalls > 0 && epochs.nonEmpty && ofStalls.nextBoolean()) {
      stalls -= 1
      faults.count(Fault.StalledSweep)
      val stopped = new SweepStall(epochs, baton.current, isFirst = ofStalls.nextBoolean())
      stall = Some(stopped)
      try baton.yieldUntil(stopped.isReleased)
      finally stall = None
    }

  /**
   * Whether operations are killed before their entry, and drivers during an epoch of which an
   * operation has left frames.
   */
  val hasLeftovers: Boolean = defect == Defect.OperationAsTasks ||
    defect == Defect.None && ofLeftovers.nextInt(LeftoversEvery) == 0
  private val leftovers = mutable.Set.empty[Long]
  private val ended = mutable.Set.empty[Long]
  private var isLeaving = hasLeftovers
  private var kills = MaxKills

  /** Whether an operation that has written the frames of an epoch is killed now. */
  def mayLeave(epoch: Long): Boolean = {
    val isLeft = isLeaving && kills > 0 && ofLeftovers.nextBoolean()
    if (isLeft) {
      kills -= 1
      leftovers += epoch
    }
    isLeft
  }

  /** Whether an operation was killed after it had written frames of the epoch. */
  def isLeftover(epoch: Long): Boolean = leftovers(epoch)

  /** Whether a run must end after its sink has published an epoch; once for each epoch. */
  def endsAmid(epoch: Long): Boolean = isLeaving && isLeftover(epoch) && ended.add(epoch)

  private val stops = mutable.Map.empty[Long, Int]

  /** Whether another run may be stopped after it has sealed an epoch; the query must end. */
  def mayStop(epoch: Long): Boolean = {
    stops(epoch) = stops.getOrElse(epoch, 0) + 1
    stops(epoch) <= MaxStops
  }

  /** Kills no process for leftovers from now on. */
  def endLeftovers(): Unit = isLeaving = false

  /** Whether a query must end after the cut that it has just made. */
  var pauses: () => Boolean = () => false

  private val ofPipelining = randomOf(seed, "pipelining")
  private val hasPipelining = Defect.ofPipelining(defect) ||
    defect == Defect.None && ofPipelining.nextBoolean()

  /** Whether a run begins epochs before the cuts of the epochs before them exist. */
  def isPipelined(): Boolean = {
    val drawn = hasPipelining && ofPipelining.nextInt(RunsOnePlain) > 0
    pipelining += drawn
    drawn
  }

  /** Whether runs were pipelined, and others were not. */
  val pipelining: mutable.Set[Boolean] = mutable.Set.empty

  private val ofHandovers = randomOf(seed, "handovers")
  private val hasHandovers = Defect.ofHandovers(defect) ||
    defect == Defect.None && ofHandovers.nextInt(HandoversEvery) == 0

  /** How long the runs of a process wait for the run before, in milliseconds. */
  def handoverMs(): Long = {
    val drawn =
      if (hasHandovers) HandoverTimes(ofHandovers.nextInt(HandoverTimes.size)) else 0L
    waits += drawn
    drawn
  }

  /** The waits of all processes so far. */
  val waits: mutable.Set[Long] = mutable.Set.empty

  private var successors = MaxSuccessors

  /** Whether a successor starts now, in a run with handovers. */
  def isSuccessorDue: Boolean = {
    val isDue = hasHandovers && successors > 0 && ofHandovers.nextInt(SuccessorEvery) == 0
    if (isDue) successors -= 1
    isDue
  }

  private val isWriter = ThreadLocal.withInitial(() => false)

  /** Writes an object concurrently with an epoch in this thread. */
  def writing(write: Runnable): Unit = {
    isWriter.set(true)
    try write.run()
    finally isWriter.set(false)
  }

  private[sim] val isSweep = ThreadLocal.withInitial(() => false)

  /** Runs a garbage collection in this thread. */
  def sweeping(sweep: Runnable): Unit = {
    isSweep.set(true)
    try sweep.run()
    finally isSweep.set(false)
  }

  private val broken = mutable.Set.empty[String]
  private val healed = mutable.Set.empty[String]

  /** Whether garbage collection cannot read a savepoint now. Later it stays readable. */
  def isBroken(savepoint: String): Boolean =
    if (healed(savepoint)) false
    else if (!broken(savepoint)) {
      val isByRate = faults.strikes(Fault.UnreadableSavepoint, SavepointRate)
      val isStruck = isByRate || isDue(2)
      if (isStruck && !isByRate) faults.count(Fault.UnreadableSavepoint)
      if (isStruck) broken += savepoint else healed += savepoint
      isStruck
    } else {
      val isHealed = random.nextInt(HealsEvery) == 0
      if (isHealed) {
        broken -= savepoint
        healed += savepoint
      }
      !isHealed
    }

  /** Makes all savepoints readable from now on. */
  def heal(): Unit = healed ++= names

  def names: Seq[String] = bucket.names

  def nextAttempt(): Long = {
    attempts += 1
    attempts
  }

  def newProcess(): SimProcess = {
    val keep = plan.keep + random.nextInt(plan.keepMore + 1)
    newProcess(CutRetention(keep, keptMs))
  }

  def newProcess(retention: CutRetention): SimProcess = {
    processes += 1
    new SimProcess(this, s"driver-$processes", retention)
  }

  /** The clock of a new host. */
  def hostClock(): HostClock = {
    val drawn = Skews(ofHosts.nextInt(Skews.size))
    new HostClock(clock, if (defect == Defect.SavepointByHostClock) Skews.min else drawn)
  }

  def loseSeals(): Unit = names.filter(_.endsWith(".sealed")).foreach(bucket.delete)

  def processCount: Int = processes

  // Hosts have separate draws, so that other draws do not change.
  private val ofHosts = randomOf(seed, "hosts")

  /**
   * Whether the run has many savepoints and short chains, so that mainly savepoints reference old
   * segments.
   */
  val hasSavepoints: Boolean =
    ofHosts.nextInt(SavepointsEvery) == 0 || Defect.ofSavepoints(defect)

  /** Whether an event is due that happens once in this many steps, in a run with savepoints. */
  def isDue(every: Int): Boolean = hasSavepoints && ofHosts.nextInt(every) == 0

  /** Whether a base is due, in a run with short chains. */
  def isBaseDue: Boolean =
    isDue(BaseEvery) || hasReferences && ofStalls.nextInt(BaseEvery) == 0
  private val keptMs = {
    val isDrawn = ofHosts.nextInt(AgesEvery) == 0
    if (isDrawn || defect == Defect.AgesByHostClock) YoungMs else 0L
  }
  invariants.keptMs = keptMs
  invariants.nowMs = () => clock.nowMs

  private val disk = new SimulatedDisk(bucket)

  /** Drawn separately, so that the plan is the same on each kind of store. */
  private val isOnDisk = defect == Defect.SchemeTrusted ||
    defect == Defect.None && randomOf(seed, "disk").nextInt(World.DiskEvery) == 0

  /** The bucket as a process sees it, or as files through the store for Hadoop file systems. */
  def store(process: String, host: HostClock): ObjectStore = {
    val store = new SlowSeals(
      plainStore(process),
      () => if (faults.strikes(Fault.SlowSeal, SealRate)) random.nextInt(MaxSealSteps) else 0,
      steps => {
        slowSeals += 1
        try (0 until steps).foreach(_ => baton.yieldNow())
        finally slowSeals -= 1
      }
    )
    val swept = new SweepStore(store, this, host)
    val below = if (defect == Defect.Overwriting) new Overwriting(swept) else swept
    val frozen = new FrozenWrites(below, mayFreeze, () => freeze())
    val counted = new CountedTakeovers(frozen, () => faults.count(Fault.Takeover))
    val cuts = new RewrittenCuts(counted, rewritten)
    defect match {
      case Defect.EarlyPage  => new EarlyPuts(cuts, CutLayout.Pages, laterOf(process))
      case Defect.EarlyMerge => new EarlyPuts(cuts, CutLayout.Segments, laterOf(process))
      case _                 => withDefect(cuts, process)
    }
  }

  private def withDefect(frozen: ObjectStore, process: String): ObjectStore =
    defect match {
      case Defect.Blind               => new StaleOwnerStore(frozen, () => true)
      case Defect.NoClaim             => new WithoutClaims(frozen)
      case Defect.CollectedWhenFenced => new StaleOwnerStore(frozen, () => isSweep.get)
      case Defect.CutUnchecked        => new StaleOwnerStore(frozen, () => isWriter.get)
      case Defect.CutUnawaited        => new EarlyCuts(frozen, laterOf(process))
      case Defect.ReferredUnseen      => new WithoutReferred(frozen)
      case Defect.TakeoverUnwritten   => new OtherTakeovers(frozen, _ => ())
      case Defect.TakeoverLate        => new OtherTakeovers(frozen, laterOf(process))
      case Defect.TakeoverUnseen      => new WithoutTakeovers(frozen)
      case Defect.LaterOwnerUnseen    => new WithoutLaterOwners(frozen)
      case _                          => frozen
    }

  private def laterOf(process: String)(write: () => Unit): Unit = {
    baton.spawn(s"put of $process", SimNetwork.Bucket, Baton.Slow)(write())
    ()
  }

  /** A cut with the planted defect. */
  private def rewritten(cut: Cut): Cut = {
    val window = cut.paged.window
    defect match {
      case Defect.ShortWindow if window.size > 1 =>
        cut.copy(paged = cut.paged.copy(window = window.drop(1)))
      case Defect.AllCounted =>
        val all = window.map(_.copy(counted = Counted.All))
        cut.copy(paged = cut.paged.copy(window = all))
      case Defect.ReferredForgotten =>
        cut.copy(referred = cut.referred.filter(_.since == cut.epoch))
      case _ => cut
    }
  }

  /** Entries are frozen for defects of the offset log, otherwise seals. */
  private def mayFreeze(key: ObjectKey, body: Array[Byte]): Boolean =
    if (Defect.ofOffsets(defect)) key.name.startsWith(s"${Names.Checkpoint}offsets/")
    else key.name.endsWith(".sealed") && FrozenWrites.hasInFlightRows(key, body)

  /** Freezes a driver; returns the action that ends this state. */
  private def freeze(): () => Unit =
    if (isFrozen || freezes == 0 || !faults.strikes(Fault.FrozenBeforeSeal, FreezeRate)) () => ()
    else {
      freezes -= 1
      isFrozen = true
      isHeldBack = true
      try baton.yieldUntil(!isHeldBack)
      catch {
        case crash: Crashed =>
          isFrozen = false
          throw crash
      }
      () => isFrozen = false
    }

  private def plainStore(process: String): ObjectStore = {
    val network = new SimNetwork(baton, faults)
    if (isOnDisk) {
      val isAtomic = defect != Defect.SchemeTrusted
      val files = new SimulatedFiles(disk, network, clock, isAtomic)
      SimulatedFiles.store(files, isAtomic, clock)
    } else new SimulatedStore(process, bucket, network, clock, plan.pageSize)
  }

  private def fileOf(store: StoreId, epoch: Long): String = {
    val version = StateVersion(epoch + 1, StateVersion.newId(clock))
    val file = StoreLayout.objectName(version, FrameKind.Delta)
    s"${Names.Root}${StoreLayout.storeDirectory(store)}/$file"
  }

  /** Writes entries of Spark's logs and files of stores from before the first cut. */
  def writeLevelZero(): Unit = {
    def put(log: String, epoch: Long, body: String): Unit =
      bucket.put(s"${Names.Checkpoint}$log/$epoch", body.getBytes, None, clock.wallMs())
    def end(epoch: Long) = (epoch.toInt + 1) * 2
    (0L until plan.levelZeroEpochs).foreach { epoch =>
      put("offsets", epoch, Names.offsets(end(epoch)))
      put("commits", epoch, CommitIds.entry(Nil))
      plan.stores.foreach(store =>
        bucket.put(fileOf(store, epoch), Array.emptyByteArray, None, clock.wallMs())
      )
    }
    if (plan.isSeenBefore) {
      val first = plan.levelZeroEpochs
      put("offsets", first, Names.offsets(end(first)))
      sink.write(first, plan.rowsOf(end(first - 1), end(first)))
    }
    ()
  }
}

/**
 * An object store with slow writes of seals, during which other drivers start and end.
 *
 * @param steps
 *   steps of other actors for which a write waits
 */
final private class SlowSeals(under: ObjectStore, steps: () => Int, await: Int => Unit)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    if (key.name.endsWith(".sealed")) await(steps())
    super.create(key, body, token)
  }
}

/**
 * An object store that freezes a driver before some writes.
 *
 * @param mayFreeze
 *   whether it may freeze, by name and bytes of the object
 * @param freeze
 *   waits until the driver may continue; its result is called after the write
 */
final private class FrozenWrites(
    under: ObjectStore,
    mayFreeze: (ObjectKey, Array[Byte]) => Boolean,
    freeze: () => () => Unit
) extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    val written = if (mayFreeze(key, body)) freeze() else () => ()
    try super.create(key, body, token)
    finally written()
  }
}

private object FrozenWrites {
  def hasInFlightRows(seal: ObjectKey, body: Array[Byte]): Boolean =
    Cut.parse(seal.name, body).channels.exists(_.deferred.rows > 0)
}

/** An object store that drops the claims of runs. */
final private class WithoutClaims(under: ObjectStore) extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (key.name.endsWith(".sealed") && Cut.parse(key.name, body).isClaim) CreateResult.Created
    else super.create(key, body, token)
}

/** An object store that hides the referred segments of cuts. */
final private class WithoutReferred(under: ObjectStore) extends ForwardingStore(under) {
  override def get(key: ObjectKey): Option[Array[Byte]] = {
    val bytes = super.get(key)
    if (!key.name.endsWith(".cut")) bytes
    else bytes.map(body => Cut.parse(key.name, body).copy(referred = Nil).toBytes)
  }
}

/** An object store that changes cuts before they are written; seals are unchanged. */
final private class RewrittenCuts(under: ObjectStore, rewrite: Cut => Cut)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    val isCut = key.name.endsWith(".cut") && key.name.startsWith(s"${Names.Root}${CutLayout.Cuts}")
    val other = if (isCut) rewrite(Cut.parse(key.name, body)).toBytes else body
    super.create(key, other, token)
  }
}

/** An object store that returns before a page, or a segment of merged frames, is written. */
final private class EarlyPuts(under: ObjectStore, directory: String, later: (() => Unit) => Unit)
    extends ForwardingStore(under) {
  override def put(key: ObjectKey, body: Array[Byte]): Unit = {
    val isPage = directory == CutLayout.Pages
    val isEarly = key.name.startsWith(s"${Names.Root}$directory") &&
      (isPage || key.name.contains("/merged-"))
    if (isEarly) later(() => super.put(key, body)) else super.put(key, body)
  }
}

/** An object store that returns before a cut is written. */
final private class EarlyCuts(under: ObjectStore, later: (() => Unit) => Unit)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (!key.name.endsWith(".cut")) super.create(key, body, token)
    else {
      later { () =>
        super.create(key, body, token)
        ()
      }
      CreateResult.Created
    }
}

/** An object store that counts the runs which take the query after a wait. */
final private class CountedTakeovers(under: ObjectStore, count: () => Unit)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    if (key.name.endsWith(Takeovers.Suffix)) count()
    super.create(key, body, token)
  }
}

private object Takeovers {
  val Suffix = ".took"
}

/** An object store that writes later, or never, that a run takes the query after a wait. */
final private class OtherTakeovers(under: ObjectStore, write: (() => Unit) => Unit)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (!key.name.endsWith(Takeovers.Suffix)) super.create(key, body, token)
    else {
      write { () =>
        super.create(key, body, token)
        ()
      }
      CreateResult.Created
    }
}

/** An object store that hides that a run has taken the query after a wait. */
final private class WithoutTakeovers(under: ObjectStore) extends ForwardingStore(under) {
  override def head(key: ObjectKey): Option[ObjectInfo] =
    super.head(key).filterNot(_ => key.name.endsWith(Takeovers.Suffix))
}

/** An object store that hides the owners after the successor of the last run of a process. */
final private class WithoutLaterOwners(under: ObjectStore) extends ForwardingStore(under) {
  private var last = Option.empty[Long]

  private def generationOf(key: ObjectKey) =
    CutLayout.parseOwner(key.name.stripPrefix(s"${Names.Root}${CutLayout.Owners}"))

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    val result = super.create(key, body, token)
    if (result == CreateResult.Created) last = generationOf(key).orElse(last)
    result
  }

  override def head(key: ObjectKey): Option[ObjectInfo] =
    super.head(key).filterNot(_ => last.exists(g => generationOf(key).contains(g + 2)))
}

/** An object store that overwrites entries of the offset log. */
final private class Overwriting(under: ObjectStore) extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (!key.name.startsWith(s"${Names.Checkpoint}offsets/")) super.create(key, body, token)
    else {
      put(key, body)
      CreateResult.Created
    }
}

private[sim] object World {

  /** The random numbers of a run for one purpose. */
  def randomOf(seed: Long, purpose: String): Random =
    Seeded.random(seed + (purpose.hashCode.toLong << 32))

  val DiskEvery = 4

  /** One start of this many waits for its cuts, in a run with pipelining. */
  val RunsOnePlain = 4

  /** One run of this many has drivers that wait for the run before. */
  val HandoversEvery = 3

  /** The waits of these drivers: some take the query at once, and some soon. */
  val HandoverTimes: IndexedSeq[Long] = IndexedSeq(0L, 1_000L, 60_000L, 60_000L)

  /** A successor starts in one of this many steps of the supervisor, a few times in a run. */
  val SuccessorEvery = 40
  val MaxSuccessors = 4

  /** One run of this many has operations that refer to old cuts. */
  val ReferencesEvery = 4
  val MaxStalls = 4

  /** One run of this many has operations that are killed before their entry. */
  val LeftoversEvery = 3
  val MaxKills = 3

  /** Stops of runs that have sealed one epoch. */
  val MaxStops = 5

  /** One run of this many has rows with keys. */
  val GroupedEvery = 3

  /** A base is due in one of this many steps of the supervisor, in runs with short chains. */
  val BaseEvery = 10

  /** Offsets of the clocks of hosts from that of the object store, in milliseconds. */
  val Skews: IndexedSeq[Long] = IndexedSeq(0L, -7_200_000L, -300L, 300L, 86_400_000L)

  /** One run of this many retains cuts by age. */
  val AgesEvery = 4
  val YoungMs = 300L

  /** A factor for savepoints, which are few. */
  val SavepointRate = 20.0
  val HealsEvery = 30
  val SavepointsEvery = 4

  /** A run has some thousand steps; one with hundreds of tasks has over a million. */
  val MaxSteps = 200_000L
  val StepsPerTask = 10_000L

  val SealRate = 5.0

  /** A factor for seals with in-flight rows, which are few. */
  val FreezeRate = 10.0
  val MaxFreezes = 2
  val MaxSealSteps = 1500
}
