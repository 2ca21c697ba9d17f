package io.cleancut.coordinator.sim

import java.util.concurrent.CompletableFuture

import scala.collection.mutable
import scala.util.control.NonFatal
import scala.util.{Failure, Random, Success, Try}

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.ObjectFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.CheckpointLogs

import io.cleancut.base.{Clock, ParallelReads}
import io.cleancut.coordinator.{CutsRuntime, QueryCoordinator}
import io.cleancut.coordinator.state.{Begun, FrameBudget}
import io.cleancut.cutstore.{CutArchive, CutParts}
import io.cleancut.cutstore.gc.CutRetention
import io.cleancut.cutstore.usage.Place
import io.cleancut.objectstore.{ObjectStore, RootedStore}
import io.cleancut.objectstore.readahead.ReadAhead

/** The failure of a task or query whose peer process has ended. */
final class Unreachable(message: String) extends RuntimeException(message)

/**
 * The driver of one application, with its executors.
 *
 * @param retention
 *   retention of cuts
 */
final class SimProcess(
    world: World,
    val name: String,
    retention: CutRetention
) {
  import world.{baton, faults, plan}

  private val host = world.hostClock()
  def clock: Clock = host

  val store = world.store(name, host)
  val root = new RootedStore(store, Names.Root)
  val archive = new CutArchive(root, clock)

  /** Each concurrent read is an actor with its own delays. */
  private val reads = new ParallelReads(
    read => {
      baton.spawn(s"read of $name", this)(read.run())
      ()
    },
    done => baton.yieldUntil(done.isDone)
  )
  private val logs =
    new CheckpointLogs(name, new RootedStore(store, Names.Checkpoint), retention)

  val cuts: QueryCoordinator = new QueryCoordinator(
    archive,
    logs,
    name,
    CutsRuntime(
      clock,
      new SimPacker(world, this, root, Place.Driver, cuts),
      request => request.run(),
      task => {
        baton.spawn("sweep", this, Baton.Slow, cuts)(world.sweeping(task))
        ()
      },
      plan.sweepEpochs,
      plan.baseMargin,
      new FrameBudget(plan.budgetBytes),
      plan.paging,
      CutParts.read,
      write => {
        // It often ends after everything that does not wait for it.
        baton.spawn(s"writer of $name", this, Baton.Slow)(world.writing(write))
        ()
      },
      done => baton.yieldUntil(done.isDone),
      reads = reads,
      handoverMs = world.handoverMs(),
      stopQuery = stopQuery
    )
  )
  var executors: Vector[SimExecutor] = Vector.tabulate(plan.executors)(newExecutor)
  var isAlive = true

  private var runs = 0
  private val queries = mutable.Map.empty[String, SimQuery]
  private var seen = Vector.empty[String]

  def newRun(target: Long): SimQuery = {
    runs += 1
    val query = new SimQuery(world, this, s"run-$name-$runs", target)
    queries(query.runId) = query
    query
  }

  private def stopQuery(runId: String): Unit = queries.get(runId).foreach { query =>
    faults.count(Fault.Handover)
    query.handsOver()
  }

  def newOperation(random: Option[Random], stall: Option[SweepStall] = None): SimOperation = {
    runs += 1
    new SimOperation(world, this, s"act-$name-$runs", random, stall)
  }

  def crash(): Unit = {
    isAlive = false
    world.invariants.happened(s"$name crashes")
    baton.crash(this)
    executors.foreach(_.crash())
  }

  /** Crashes an executor and replaces it. */
  def crashExecutor(index: Int): Unit = {
    executors(index).crash()
    executors = executors.updated(index, newExecutor(index))
  }

  /** Sends a message to the coordinator and returns its response. The message may arrive twice. */
  def ask[A](
      runId: String,
      what: String
  )(believed: A => Boolean)(body: QueryCoordinator => A): A = {
    val answers = mutable.Buffer.empty[Try[A]]
    def send(weight: Int): Unit = {
      baton.spawn(s"$what of $runId", this, weight, cuts) {
        answers += serve(runId, what)(believed)(body)
      }
      ()
    }
    send(Baton.Ordinary)
    if (faults.strikes(Fault.MessageTwice)) send(Baton.Slow)
    if (faults.strikes(Fault.LostReply)) {
      baton.yieldUntil(answers.nonEmpty || !isAlive)
      answers.clear()
      send(Baton.Ordinary)
    }
    baton.yieldUntil(answers.nonEmpty || !isAlive)
    answers.headOption.getOrElse(throw new Unreachable(s"$name has crashed")).get
  }

  /** Sends a message without waiting for a response. */
  def tell(what: String)(body: QueryCoordinator => Unit): Unit = if (isAlive) {
    baton.spawn(what, this, monitor = cuts)(body(cuts))
    ()
  }

  /** Calls the coordinator from the thread of the query. */
  def call(runId: String, what: String)(body: QueryCoordinator => Unit): Unit = {
    val done = mutable.Buffer.empty[Try[Unit]]
    baton.spawn(s"$what of $runId", this, monitor = cuts) {
      done += serve[Unit](runId, what)(_ => true)(body)
    }
    baton.yieldUntil(done.nonEmpty)
    done.head.get
  }

  /** The last write of an entry that the coordinator does not know. */
  private var unknownEntry = CompletableFuture.completedFuture(())

  def awaitUnknownEntry(): Unit = baton.yieldUntil(unknownEntry.isDone)

  /** Writes an entry of the offset log, possibly concurrently with the query. */
  def writeEntry(runId: String, epoch: Long)(write: => Unit): CompletableFuture[Unit] =
    if (Defect.ofEntries(world.defect) && epoch > plan.levelZeroEpochs) {
      val done = new CompletableFuture[Unit]
      baton.spawn(s"unknown entry of $name", this, Baton.Slow) {
        try write
        catch { case NonFatal(_) => () }
        finally {
          done.complete(())
          ()
        }
      }
      unknownEntry = done
      CompletableFuture.completedFuture(())
    } else if (world.defect == Defect.EntryBeforeCut) {
      write
      CompletableFuture.completedFuture(())
    } else {
      val done = cuts.plan(runId, epoch) {
        try write
        catch {
          case NonFatal(e) =>
            if (SimQuery.isUnavailable(e)) world.invariants.entryFailed(runId)
            throw e
        }
      }
      if (!done.isDone) faults.count(Fault.ConcurrentEntry)
      done
    }

  /** Writes the end marker of a run, if that succeeds. */
  def endRun(runId: String): Unit = if (!faults.strikes(Fault.UnmarkedEnd, SimProcess.PerRun)) {
    tell(s"end of $runId") { cuts =>
      try {
        cuts.endRun(runId)
        val isPlanted = world.defect == Defect.EndedAfterFailure
        if (isPlanted && world.invariants.hasFailed(runId)) endAnyway(runId)
      } catch { case NonFatal(_) => () }
    }
  }

  /** Writes the end marker of a run whose last write has not taken effect yet. */
  def endAnyway(runId: String): Unit = cuts.status.run.filter(_.runId == runId).foreach { run =>
    archive.owners.end(run.generation)
  }

  /** A log of Spark as this process reads and writes it. */
  def files(log: String, from: ObjectStore = store): CheckpointFileManager =
    new ObjectFileManager(Names.log(log), from, () => (), clock)

  /** What a run of this process reads ahead. */
  def newReadAhead(): ReadAhead = new ReadAhead(store, reads, clock, () => true)

  /** What the first run of this process has read ahead, for the defect that uses it again. */
  var readBefore = Option.empty[ReadAhead]

  /** Runs the garbage collection at the start of a run, concurrently with the query. */
  def sweepAtStart(begun: Begun): Unit =
    for (cut <- begun.cut; collector <- begun.collector)
      if (collector.isDue(cut.epoch) && collector.tryStart()) {
        faults.count(Fault.StartSweep)
        baton.spawn(s"garbage collection at the start of $name", this, Baton.Slow) {
          world.sweeping { () =>
            try collector.runAtStart(cut)
            catch { case NonFatal(_) => () }
          }
        }
        ()
      }

  /** Creates a savepoint, and may drop it some time later. */
  def pin(name: String, epoch: Long): Unit = {
    baton.spawn(s"pin of $epoch", this) {
      try {
        cuts.pin(name, epoch)
        world.invariants.pinned(name)
        if (world.random.nextBoolean()) {
          world.invariants.unpinned(name)
          cuts.unpin(name)
          ()
        }
      } catch { case NonFatal(_) => () }
    }
    ()
  }

  private def serve[A](runId: String, what: String)(
      believed: A => Boolean
  )(body: QueryCoordinator => A): Try[A] = {
    val isFollowed = seen.contains(runId) && seen.last != runId
    try {
      val answer = body(cuts)
      if (believed(answer)) {
        if (isFollowed) {
          world.invariants.violated(s"$what of $runId was accepted after ${seen.last} had begun")
        }
        if (!seen.contains(runId)) addRun(runId)
      }
      Success(answer)
    } catch { case NonFatal(e) => Failure(e) }
  }

  /** Adds a run, before the last one if the last one has begun and received its response first. */
  private def addRun(runId: String): Unit = {
    val isLate = seen.lastOption.exists(last => cuts.status.run.exists(_.runId == last))
    seen = if (isLate) seen.init :+ runId :+ seen.last else seen :+ runId
  }

  private def newExecutor(index: Int) = new SimExecutor(world, this, s"$index")
}

private object SimProcess {

  /** A factor for ends of runs, which are rare. */
  val PerRun = 3.0
}
