package io.cleancut.cuts.sim

import scala.util.Random

import io.cleancut.{StateVersion, StoreId}
import io.cleancut.format.{FrameKind, StoreLayout}
import io.cleancut.objects._

/** All that the actors of one run of the simulation share. */
final class World(val seed: Long, val defect: Defect) {
  val random = new Random(seed)
  val plan = new SimPlan(random)
  val baton = new Baton(random, World.MaxSteps)
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
  private var processes = 0

  def names: Seq[String] = bucket.names

  def nextAttempt(): Long = {
    attempts += 1
    attempts
  }

  def newProcess(): SimProcess = {
    processes += 1
    new SimProcess(this, s"driver-$processes")
  }

  def loseSeals(): Unit = names.filter(_.endsWith(".sealed")).foreach(bucket.delete)

  def processCount: Int = processes

  private val disk = new SimulatedDisk(bucket)

  /** Drawn beside the plan, which is the same on each kind of store. */
  private val isOnDisk = defect == Defect.SchemeTrusted ||
    defect == Defect.None && new Random(~seed).nextInt(World.DiskEvery) == 0

  /** The bucket as a process sees it; or as files, through the store of Hadoop's file systems. */
  def store(process: String): ObjectStore = {
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
      put("offsets", epoch, s"v1\n${end(epoch)}")
      put("commits", epoch, CommitIds.entry(Nil))
      plan.stores.foreach(store =>
        bucket.put(fileOf(store, epoch), Array.emptyByteArray, None, clock.wallMs())
      )
    }
    if (plan.isSeenBefore) {
      val first = plan.levelZeroEpochs
      put("offsets", first, s"v1\n${end(first)}")
      sink.write(first, plan.rowsOf(end(first - 1), end(first)))
    }
    ()
  }
}

private object World {

  val DiskEvery = 4

  /** A run has some thousands. */
  val MaxSteps = 200_000L
}
