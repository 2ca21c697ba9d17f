package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.Random

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.{BlindToOwners, ForwardingStore}
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.format.{CutLayout, FrameKind, StoreLayout}
import io.cleancut.format.cut.{Counted, Cut}
import io.cleancut.objectstore.{
  CreateResult,
  ObjectKey,
  ObjectStore,
  SimulatedBucket,
  SimulatedDisk,
  SimulatedFiles,
  SimulatedStore,
  WriterToken
}
import io.cleancut.testkit.Seeded

/** All that the actors of one run of the simulation share. */
final class World(val seed: Long, val defect: Defect, tasks: Option[Int]) {
  import World._

  val random: Random = Seeded.random(seed)

  // What differs in the runs of operations by reference is drawn apart from all else.
  private val ofStalls = randomOf(seed, "references")

  /** Whether operations refer to old cuts, of which little is named by later ones. */
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

  /** Whether a seal is on its way, for longer than others. */
  def isSealing: Boolean = slowSeals > 0

  /** Whether a driver has stopped for now, before its seal is written. */
  var isFrozen = false

  /** It goes on. */
  def thaw(): Unit = isHeldBack = false

  /** The garbage collection that is stopped now. */
  var stall = Option.empty[SweepStall]
  private var stalls = if (hasReferences) MaxStalls else 0

  /** No garbage collection is stopped from now on. */
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
   * Whether operations are killed before their entry, and drivers amid the epoch of which an
   * operation has left frames.
   */
  val hasLeftovers: Boolean = defect == Defect.ActAsTasks ||
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

  /** Whether an operation was killed that has written frames of the epoch. */
  def isLeftover(epoch: Long): Boolean = leftovers(epoch)

  /** Whether a run is to end after its sink has shown an epoch; once for each epoch. */
  def endsAmid(epoch: Long): Boolean = isLeaving && isLeftover(epoch) && ended.add(epoch)

  /** Nothing is killed for the sake of leftovers from now on. */
  def endLeftovers(): Unit = isLeaving = false

  /** Whether a query is to end behind the cut that it has just made. */
  var pauses: () => Boolean = () => false

  private[sim] val isSweep = ThreadLocal.withInitial(() => false)

  /** Does the work of a sweep, which is that of its thread. */
  def sweeping(sweep: Runnable): Unit = {
    isSweep.set(true)
    try sweep.run()
    finally isSweep.set(false)
  }

  private val broken = mutable.Set.empty[String]
  private val healed = mutable.Set.empty[String]

  /** Whether a sweep cannot read a savepoint now; it can again some time later, for good. */
  def isBroken(savepoint: String): Boolean =
    if (healed(savepoint)) false
    else if (!broken(savepoint)) {
      val isStruck = faults.strikes(Fault.UnreadableSavepoint, SavepointRate) || isDue(2)
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

  /** From now on all savepoints can be read. */
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

  /** The clock of a host that is started. */
  def hostClock(): HostClock = {
    val drawn = Skews(ofHosts.nextInt(Skews.size))
    new HostClock(clock, if (defect == Defect.SavepointByHostClock) Skews.min else drawn)
  }

  def loseSeals(): Unit = names.filter(_.endsWith(".sealed")).foreach(bucket.delete)

  def processCount: Int = processes

  // What differs between hosts is drawn apart from all else.
  private val ofHosts = randomOf(seed, "hosts")

  /** Whether savepoints are many, and chains short, so that little but savepoints needs much. */
  val hasSavepoints: Boolean =
    ofHosts.nextInt(SavepointsEvery) == 0 || Defect.ofSavepoints(defect)

  /** Whether something is due that comes once in so many steps, in a run with savepoints. */
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

  /** Drawn beside the plan, which is the same on each kind of store. */
  private val isOnDisk = defect == Defect.SchemeTrusted ||
    defect == Defect.None && randomOf(seed, "disk").nextInt(World.DiskEvery) == 0

  /** The bucket as a process sees it; or as files, through the store of Hadoop's file systems. */
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
    val swept = new SweptStore(store, this, host)
    val below = if (defect == Defect.Overwriting) new Overwriting(swept) else swept
    val frozen = new FrozenWrites(below, mayFreeze, () => freeze())
    val cuts = new RewrittenCuts(frozen, rewritten)
    defect match {
      case Defect.EarlyPage  => new EarlyPuts(cuts, CutLayout.Pages, laterOf(process))
      case Defect.EarlyMerge => new EarlyPuts(cuts, CutLayout.Segments, laterOf(process))
      case _                 => withDefect(cuts)
    }
  }

  private def withDefect(frozen: ObjectStore): ObjectStore =
    defect match {
      case Defect.Blind          => new BlindToOwners(frozen, () => true)
      case Defect.NoClaim        => new WithoutClaims(frozen)
      case Defect.SweptBeside    => new BlindToOwners(frozen, () => isSweep.get)
      case Defect.ReferredUnseen => new WithoutReferred(frozen)
      case _                     => frozen
    }

  private def laterOf(process: String)(write: () => Unit): Unit = {
    baton.spawn(s"put of $process", SimNetwork.Bucket, Baton.Slow)(write())
    ()
  }

  /** What becomes of a cut that is about to be written. */
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

  /** Where the log of offsets is what goes wrong, it is its entries that come late. */
  private def mayFreeze(key: ObjectKey, body: Array[Byte]): Boolean =
    if (Defect.ofOffsets(defect)) key.name.startsWith(s"${Names.Checkpoint}offsets/")
    else key.name.endsWith(".sealed") && FrozenWrites.hasRowsInFlight(key, body)

  /** What undoes it. */
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

  /** Entries of Spark's logs from before the first cut, and the files of the stores. */
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
 * Takes its time for a seal, in which other drivers come and go.
 *
 * @param steps
 *   of others that it waits for
 */
final private class SlowSeals(under: ObjectStore, steps: () => Int, await: Int => Unit)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    if (key.name.endsWith(".sealed")) await(steps())
    super.create(key, body, token)
  }
}

/**
 * Freezes a driver that is about to write.
 *
 * @param mayFreeze
 *   by name and bytes of the object
 * @param freeze
 *   returns when it goes on; what that gives is to be called when the seal is written
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
  def hasRowsInFlight(seal: ObjectKey, body: Array[Byte]): Boolean =
    Cut.parse(seal.name, body).channels.exists(_.deferred.rows > 0)
}

/** Runs do not say that they begin an epoch anew. */
final private class WithoutClaims(under: ObjectStore) extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (key.name.endsWith(".sealed") && Cut.parse(key.name, body).isClaim) CreateResult.Created
    else super.create(key, body, token)
}

/** Reads cuts as if their bases referred to nothing. */
final private class WithoutReferred(under: ObjectStore) extends ForwardingStore(under) {
  override def get(key: ObjectKey): Option[Array[Byte]] = {
    val bytes = super.get(key)
    if (!key.name.endsWith(".cut")) bytes
    else bytes.map(of => Cut.parse(key.name, of).copy(referred = Nil).toBytes)
  }
}

/** Has other bytes written of cuts; seals are left as they are. */
final private class RewrittenCuts(under: ObjectStore, rewritten: Cut => Cut)
    extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    val isCut = key.name.endsWith(".cut") && key.name.startsWith(s"${Names.Root}${CutLayout.Cuts}")
    val other = if (isCut) rewritten(Cut.parse(key.name, body)).toBytes else body
    super.create(key, other, token)
  }
}

/** Returns before a page, or a segment of merged frames, is written. */
final private class EarlyPuts(under: ObjectStore, of: String, later: (() => Unit) => Unit)
    extends ForwardingStore(under) {
  override def put(key: ObjectKey, body: Array[Byte]): Unit = {
    val isPage = of == CutLayout.Pages
    val isEarly = key.name.startsWith(s"${Names.Root}$of") &&
      (isPage || key.name.contains("/merged-"))
    if (isEarly) later(() => super.put(key, body)) else super.put(key, body)
  }
}

/** Writes an entry of the log of offsets whatever is there. */
final private class Overwriting(under: ObjectStore) extends ForwardingStore(under) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    if (!key.name.startsWith(s"${Names.Checkpoint}offsets/")) super.create(key, body, token)
    else {
      put(key, body)
      CreateResult.Created
    }
}

private[sim] object World {

  /** Random numbers of a run for one purpose. */
  def randomOf(seed: Long, purpose: String): Random =
    Seeded.random(seed + (purpose.hashCode.toLong << 32))

  val DiskEvery = 4

  /** One run of so many has operations that refer to old cuts. */
  val ReferencesEvery = 4
  val MaxStalls = 4

  /** One run of so many has operations that are killed before their entry. */
  val LeftoversEvery = 3
  val MaxKills = 3

  /** One run of so many has rows with keys. */
  val GroupedEvery = 3

  /** Steps of the supervisor, in runs with short chains. */
  val BaseEvery = 10

  /** How far the clocks of hosts are ahead of that of the store, in milliseconds. */
  val Skews: IndexedSeq[Long] = IndexedSeq(0L, -7_200_000L, -300L, 300L, 86_400_000L)

  /** One run of so many keeps cuts for their age. */
  val AgesEvery = 4
  val YoungMs = 300L

  /** There are few savepoints. */
  val SavepointRate = 20.0
  val HealsEvery = 30
  val SavepointsEvery = 4

  /** A run has some thousands; one with hundreds of tasks a million and more. */
  val MaxSteps = 200_000L
  val StepsPerTask = 10_000L

  val SealRate = 5.0

  /** Rows are in flight in few seals. */
  val FreezeRate = 10.0
  val MaxFreezes = 2
  val MaxSealSteps = 1500
}
