package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.gc.{CutRetention, CutSweep}

/** The result of one run of the simulation. */
final case class Outcome(
    seed: Long,
    plan: SimPlan,
    violations: Seq[String],
    events: Seq[String],
    faults: Map[Fault, Int],
    timing: SimTiming,
    epochs: Long,
    recovered: Int,
    fenced: Int,
    lost: Int,
    duplicated: Int,
    orphans: Int,
    steps: Long
)

/**
 * How the runs of the query followed one another.
 *
 * @param waitsMs
 *   how long runs wait for the run before
 * @param pipelined
 *   whether runs begin an epoch before the cut of the epoch before it exists
 */
final case class SimTiming(ends: Set[RunEnd], waitsMs: Set[Long], pipelined: Set[Boolean])

/**
 * One run: the driver and executors of a query crash, or are replaced while they are alive, until
 * no fault is left. Then a driver runs without faults.
 *
 * @param tasks
 *   tasks of an epoch, if they are many
 */
final class Simulation(seed: Long, defect: Defect = Defect.None, tasks: Option[Int] = None) {
  import Simulation._

  private val world = new World(seed, defect, tasks)
  import world.{baton, faults, invariants, plan}

  private val target = plan.levelZeroEpochs + plan.epochs
  private val processes = mutable.Buffer.empty[SimProcess]
  // Processes that do not run the query.
  private val otherProcesses = mutable.Buffer.empty[SimProcess]
  private val runs = mutable.Buffer.empty[OwningRun]
  private var disturbances = world.random.nextInt(MaxDisturbances)
  // Separate from disturbances, because a long upload has to begin early.
  private var bases = world.random.nextInt(MaxBases)
  private var pins = MaxPins
  // Drawn separately, so that other draws do not change.
  private val operationsRandom = World.randomOf(seed, "acts")
  private var operations = {
    val isDrawn = defect == Defect.None && operationsRandom.nextInt(OperationsEvery) == 0
    if (isDrawn || Defect.ofOperations(defect) || world.hasReferences || world.hasLeftovers)
      MaxOperations
    else 0
  }
  private var expiries = if (operations > 0) MaxExpiries else 0
  private var orphans = 0

  def run(): Outcome = {
    world.writeLevelZero()
    baton.spawn("supervisor", this, weight = SupervisorWeight)(supervise())
    try baton.runAll()
    catch {
      case e: Stuck    => invariants.violated(e.getMessage)
      case NonFatal(e) => invariants.violated(trace(e))
    }
    Outcome(
      seed,
      plan,
      invariants.violations.toSeq,
      invariants.events.toSeq,
      faults.struck,
      timing,
      invariants.last + 1,
      invariants.recovered,
      invariants.fenced,
      invariants.lost,
      invariants.duplicated,
      orphans,
      baton.steps
    )
  }

  private def timing = SimTiming(
    runs.collect { case query: SimQuery => query.end }.toSet,
    world.waits.toSet,
    world.pipelining.toSet
  )

  private def supervise(): Unit = {
    startProcess()
    while (!isTargetReached) {
      baton.yieldNow()
      if (world.isFrozen) runMeanwhile()
      else if (world.stall.isDefined) meet(world.stall.get)
      else if (!runs.last.isOver) disturb()
      else if (!isTargetReached) restart()
      if (runs.size > MaxRuns) throw new Stuck(s"epoch ${invariants.last} after $MaxRuns runs")
    }
    faults.calm()
    world.thaw()
    world.endStalls()
    world.endLeftovers()
    // Replaced runs find out that they are fenced, or have ended.
    if (world.random.nextBoolean()) baton.yieldUntil(runs.forall(_.isOver))
    (processes ++ otherProcesses).foreach(_.crash())
    baton.yieldUntil(!baton.isAnyAlive(SimNetwork.Bucket))
    finish()
  }

  private def isTargetReached = runs.last.isOver && invariants.last >= target - 1

  private def startProcess(): SimQuery = {
    processes += world.newProcess()
    val run = processes.last.newRun(target)
    runs += run
    run
  }

  // Pauses, so that operations find in-flight rows.
  private var operationsInFlight = if (operations > 0) MaxOperationsInFlight else 0
  world.pauses = () => operationsInFlight > 0 && isInFlight

  private def isInFlight = invariants.cut(invariants.last).exists(_.inFlight.nonEmpty)

  private def operateOrStop(): Unit = runs.last match {
    case query: SimQuery if operationsRandom.nextBoolean() => query.stopsBetween()
    case _                                                 =>
      faults.count(Fault.OperationWithDriver)
      startOperation()
      ()
  }

  /** Starts an operation in a new application. */
  private def startOperation(stall: Option[SweepStall] = None): SimOperation = {
    operations -= 1
    processes += world.newProcess()
    val operation = processes.last.newOperation(Some(operationsRandom), stall)
    runs += operation
    operation
  }

  /** Has an operation refer to a cut that a stopped garbage collection deletes next. */
  private def meet(stall: SweepStall): Unit = runs.last match {
    case query: SimQuery if !query.isOver => query.stopsBetween()
    case running if !running.isOver       => ()
    case _ if stall.isReleased            => ()
    case _                                =>
      faults.count(Fault.OperationWithoutDriver)
      val operation = startOperation(Some(stall))
      baton.yieldUntil(operation.isOver || operation.hasMet(stall))
      stall.isReleased = true
  }

  /** Restarts a query that has ended, in the same driver or in a new one. */
  private def restart(): Unit = {
    if (defect == Defect.SealsLost) world.loseSeals()
    // The error requires an operation in this case.
    val isIncomplete = runs.last.failure.exists(SimQuery.isIncompleteOperation)
    val isPaused = operationsInFlight > 0 && isInFlight
    if (expiries > 0 && operationsRandom.nextInt(ExpiresEvery) == 0) {
      expiries -= 1
      expire()
    }
    if (isPaused) operationsInFlight -= 1
    if (isIncomplete || isPaused || (operations > 0 && operationsRandom.nextBoolean())) {
      faults.count(Fault.OperationWithoutDriver)
      startOperation()
      ()
    } else if (processes.last.isAlive && world.random.nextBoolean()) runAgain()
    else {
      startProcess()
      ()
    }
  }

  /**
   * While a driver is frozen before its seal, another driver publishes the epoch and dies before
   * the cut.
   */
  private def runMeanwhile(): Unit = {
    val meanwhile = startProcess()
    if (Defect.ofOffsets(defect)) baton.yieldUntil(meanwhile.hasBegun || meanwhile.isOver)
    else {
      meanwhile.stopsAfterSink()
      baton.yieldUntil(meanwhile.isOver)
    }
    world.thaw()
    baton.yieldUntil(!world.isFrozen)
  }

  /** Expires cuts manually, while no run is active or while a run begins. */
  private def expire(): Unit = {
    val process = world.newProcess()
    otherProcesses += process
    new SimExpiry(world, process, keep = 1 + operationsRandom.nextInt(2))
    ()
  }

  private def runAgain(): Unit = {
    faults.count(Fault.RunAgain)
    runs += processes.last.newRun(target)
  }

  private def disturb(): Unit = {
    val driver = processes.last
    def strikes(fault: Fault, rate: Double = Rate) = {
      val isStruck = disturbances > 0 && faults.strikes(fault, rate)
      if (isStruck) disturbances -= 1
      isStruck
    }
    if (runs.last.hasBegun && world.isSuccessorDue) {
      startProcess()
      ()
    } else if (strikes(Fault.DriverCrash)) driver.crash()
    else if (strikes(Fault.Zombie, if (world.isSealing) RateWhenSealing else Rate)) {
      startProcess()
      ()
    } else if (operations > 0 && operationsRandom.nextInt(OperationEvery) == 0) operateOrStop()
    else if (strikes(Fault.RunAgain)) runs += driver.newRun(target)
    else if (strikes(Fault.ExecutorCrash)) {
      driver.crashExecutor(world.random.nextInt(plan.executors))
    } else if (pins > 0 && world.isDue(PinEvery)) {
      pins -= 1
      pin(driver)
    } else if (bases > 0 && (world.isBaseDue || faults.strikes(Fault.Maintenance, Rate))) {
      bases -= 1
      maintain(driver)
    } else if (strikes(Fault.Pin)) pin(driver)
    else if (defect == Defect.NoMargin) {
      if (world.random.nextBoolean()) maintain(driver) else sweepAnyway(driver, baseMargin = 0L)
    } else if (defect == Defect.SweepsAtOnce) {
      sweepAnyway(driver, plan.baseMargin)
    } else if (defect == Defect.NotSpared) {
      if (world.random.nextBoolean()) maintain(driver) else sweepAnyway(driver, plan.baseMargin)
    }
  }

  private def pin(driver: SimProcess): Unit = {
    val age = world.random.nextInt(plan.keep + 2)
    driver.pin(s"pin-${runs.size}-$disturbances-$pins", invariants.last - age)
  }

  private def maintain(driver: SimProcess): Unit =
    driver.executors(world.random.nextInt(plan.executors)).maintain(runs.last.runId)

  /** Runs a garbage collection without the state of the owner. */
  private def sweepAnyway(driver: SimProcess, baseMargin: Long): Unit = {
    baton.spawn("broken garbage collection", driver) {
      val sweep = new CutSweep(driver.archive, baseMargin, () => false)
      world.sweeping { () =>
        try sweep.run(invariants.last - plan.keep, retained = Set.empty)
        catch { case NonFatal(_) => () }
        ()
      }
    }
    ()
  }

  /** Runs a query without faults to its end, and collects garbage. */
  private def finish(): Unit = {
    val driver = world.newProcess(CutRetention(plan.keep))
    invariants.keptMs = 0L
    operations = 0
    operationsInFlight = 0
    // The error of the query requires an operation, which is refused if garbage collection has
    // deleted the cut that it goes to.
    var tries = MaxLastOperations
    while (invariants.hasIncompleteOperation && tries > 0) {
      tries -= 1
      // The start of the query writes the commit entry of the last cut if it is missing.
      for (one <- Seq(() => driver.newRun(target), () => driver.newOperation(None))) {
        val running = one()
        baton.yieldUntil(running.isOver)
      }
    }
    val swept = plan.keep + plan.baseMargin + plan.sweepEpochs + 2
    val more = if (world.hasSavepoints) 2 * swept else swept
    // Operations may have exceeded the target.
    val end = Math.max(target, invariants.last + 1) + more
    val last = driver.newRun(end)
    // Savepoints then reference old segments that no cut references.
    while (world.hasSavepoints && !last.isOver) {
      baton.yieldNow()
      if (world.isBaseDue && bases > -MaxLateBases) {
        bases -= 1
        driver.executors(world.random.nextInt(plan.executors)).maintain(last.runId)
      } else if (world.isDue(PinEvery) && pins > -MaxPins) {
        pins -= 1
        pin(driver)
      }
    }
    baton.yieldUntil(last.isOver && !baton.isAnyAlive(driver))
    last.failure.foreach(e => invariants.violated(s"a run without faults failed: $e"))
    if (invariants.last != end - 1) {
      invariants.violated(s"epoch ${invariants.last} is the last and not ${end - 1}")
    }
    world.heal()
    val oldest = invariants.last - plan.keep
    // Cuts after the oldest retained one reference a base that was adopted late.
    val late =
      driver.archive.cuts.read(invariants.last).toSeq.flatMap(_.retainedSegments(oldest)).toSet
    new CutSweep(driver.archive, plan.baseMargin, () => false).run(oldest, late)
    val left = invariants.orphans(world.names)
    orphans = left.size
    if (left.nonEmpty) invariants.violated(s"garbage collection left ${left.mkString(", ")}")
    checkReader(driver)
    driver.crash()
  }

  /** Checks that a new reader finds the cuts that the commit log lists. */
  private def checkReader(driver: SimProcess): Unit = {
    val epochs = driver.archive.cuts.epochs()
    epochs.filterNot(invariants.late).flatMap(driver.archive.cuts.read(_)).foreach(invariants.check)
    invariants.checkPins(driver.archive.savepoints.all())
    val kept = (invariants.last - plan.keep).max(plan.levelZeroEpochs) to invariants.last
    val wanted = kept.filterNot(invariants.mayLack)
    if (!wanted.forall(epochs.contains(_))) invariants.violated(s"$epochs instead of $wanted")
    val files = driver.files("commits")
    val view = SimQuery.commits(plan, files, driver.archive, NoGate)
    val listed = view.list(Names.log("commits")).flatMap(_.getPath.getName.toLongOption).toSeq
    val shown =
      if (plan.isOnFiles) (0L to invariants.last).filterNot(invariants.unused)
      else (0L until plan.levelZeroEpochs) ++ epochs
    // A fenced run may have died between its cut and the entry, which a later run writes only if
    // it continues from that cut.
    def mayLackEntry(epoch: Long) =
      invariants.late(epoch) || invariants.left(epoch) || invariants.isStale(epoch)
    def required(epochs: Seq[Long]) = epochs.filterNot(mayLackEntry).sorted
    if (required(listed) != required(shown))
      invariants.violated(s"commits $listed instead of $shown")
    epochs.filterNot(invariants.late).foreach { epoch =>
      val entry = SimQuery.read(view, Names.entry("commits", epoch))
      if (!invariants.cut(epoch).exists(_.commit == entry)) {
        invariants.violated(s"commit $epoch is $entry")
      }
    }
    val plain = world.names.filter(_.startsWith(s"${Names.Checkpoint}commits/"))
    if (!plan.isOnFiles && plain.size != plan.levelZeroEpochs)
      invariants.violated(s"commits without cuts: $plain")
  }

  private def trace(e: Throwable): String =
    Iterator
      .iterate(e)(_.getCause)
      .takeWhile(_ != null)
      .flatMap(c => c.toString +: c.getStackTrace.toSeq.take(8))
      .mkString("\n      ")
}

private object Simulation {

  /** The gate of a reader, which commits nothing. */
  private object NoGate extends GateOfNoQuery {
    override def checkOwner(): Unit = ()
    override def commit(epoch: Long, entry: String)(written: String => Unit): String =
      throw new UnsupportedOperationException
  }

  val MaxRuns = 60
  val MaxDisturbances = 10
  val MaxBases = 8

  /** Limit of savepoints, in runs with savepoints. */
  val MaxPins = 6
  val MaxLastOperations = 10
  val PinEvery = 10
  val MaxLateBases = 20

  /** One run of this many has operations, at most `MaxOperations`. */
  val OperationsEvery = 2
  val MaxOperations = 6
  val MaxOperationsInFlight = 2

  /** One restart of this many is preceded by an expiry, at most `MaxExpiries` times. */
  val ExpiresEvery = 3
  val MaxExpiries = 3

  /** An operation starts in one of this many steps of the supervisor while a query runs. */
  val OperationEvery = 50
  val SupervisorWeight = 4

  /** A factor for faults by the supervisor, which has fewer steps than there are requests. */
  val Rate = 2.0

  /** A factor for a replaced driver during a seal, which is the case that seals protect from. */
  val RateWhenSealing = 20.0
}

/** The gate of a process that begins no query. */
private[sim] trait GateOfNoQuery extends QueryCommitter {
  override def begin(): Option[Begun] = None
  override def atStart(name: String)(operation: Begun => Unit): Unit = ()
}
