package io.cleancut.coordinator.sim

import scala.collection.mutable
import scala.util.control.NonFatal

import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.gc.{CutRetention, CutSweep}

/** What one run of the simulation came to. */
final case class Outcome(
    seed: Long,
    plan: SimPlan,
    violations: Seq[String],
    events: Seq[String],
    faults: Map[Fault, Int],
    epochs: Long,
    recovered: Int,
    fenced: Int,
    lost: Int,
    doubled: Int,
    orphans: Int,
    steps: Long
)

/**
 * One run: a query whose driver and executors crash, or are replaced while they live, for as long
 * as the seed has faults for it, and then a driver that nothing happens to.
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
  // Of those who are no runs of the query.
  private val beside = mutable.Buffer.empty[SimProcess]
  private val runs = mutable.Buffer.empty[SimRunning]
  private var disturbances = world.random.nextInt(MaxDisturbances)
  // Apart from them: one that takes long has to begin early.
  private var bases = world.random.nextInt(MaxBases)
  private var pins = MaxPins
  // Drawn beside all else, which is the same without them.
  private val ofActs = World.randomOf(seed, "acts")
  private var acts = {
    val isDrawn = defect == Defect.None && ofActs.nextInt(ActsEvery) == 0
    if (isDrawn || Defect.ofActs(defect) || world.hasReferences || world.hasLeftovers)
      MaxActs
    else 0
  }
  private var expiries = if (acts > 0) MaxExpiries else 0
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
      invariants.last + 1,
      invariants.recovered,
      invariants.fenced,
      invariants.lost,
      invariants.doubled,
      orphans,
      baton.steps
    )
  }

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
    // Those that were replaced find out by themselves, or are gone.
    if (world.random.nextBoolean()) baton.yieldUntil(runs.forall(_.isOver))
    (processes ++ beside).foreach(_.crash())
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

  // So that acts find rows in flight.
  private var actsInFlight = if (acts > 0) MaxActsInFlight else 0
  world.pauses = () => actsInFlight > 0 && isInFlight

  private def isInFlight = invariants.cut(invariants.last).exists(_.inFlight.nonEmpty)

  private def actOrStop(): Unit = runs.last match {
    case query: SimQuery if ofActs.nextBoolean() => query.stopsBetween()
    case _                                       =>
      faults.count(Fault.ActBeside)
      startAct()
      ()
  }

  /** Of an application of its own. */
  private def startAct(stall: Option[SweepStall] = None): SimAct = {
    acts -= 1
    processes += world.newProcess()
    val act = processes.last.newAct(Some(ofActs), stall)
    runs += act
    act
  }

  /** Has an operation refer to a cut that a stopped garbage collection deletes next. */
  private def meet(stall: SweepStall): Unit = runs.last match {
    case query: SimQuery if !query.isOver => query.stopsBetween()
    case running if !running.isOver       => ()
    case _ if stall.isReleased            => ()
    case _                                =>
      faults.count(Fault.ActBetween)
      val act = startAct(Some(stall))
      baton.yieldUntil(act.isOver || act.hasMet(stall))
      stall.isReleased = true
  }

  /** A query has ended: it is started again, where it was or elsewhere. */
  private def restart(): Unit = {
    if (defect == Defect.SealsLost) world.loseSeals()
    // As the error says, an act is to be done then.
    val isBehindAct = runs.last.failure.exists(SimQuery.isBehindAct)
    val isPaused = actsInFlight > 0 && isInFlight
    if (expiries > 0 && ofActs.nextInt(ExpiresEvery) == 0) {
      expiries -= 1
      expire()
    }
    if (isPaused) actsInFlight -= 1
    if (isBehindAct || isPaused || (acts > 0 && ofActs.nextBoolean())) {
      faults.count(Fault.ActBetween)
      startAct()
      ()
    } else if (processes.last.isAlive && world.random.nextBoolean()) runAgain()
    else {
      startProcess()
      ()
    }
  }

  /** A driver is frozen before its seal: another one shows the epoch, and dies before the cut. */
  private def runMeanwhile(): Unit = {
    val meanwhile = startProcess()
    if (Defect.ofOffsets(defect)) baton.yieldUntil(meanwhile.hasBegun || meanwhile.isOver)
    else {
      meanwhile.stopsBehindSink()
      baton.yieldUntil(meanwhile.isOver)
    }
    world.thaw()
    baton.yieldUntil(!world.isFrozen)
  }

  /** Somebody gives up what the query might keep, while nobody runs or somebody begins. */
  private def expire(): Unit = {
    val process = world.newProcess()
    beside += process
    new SimExpiry(world, process, keep = 1 + ofActs.nextInt(2))
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
    if (strikes(Fault.DriverCrash)) driver.crash()
    else if (strikes(Fault.Zombie, if (world.isSealing) RateWhenSealing else Rate)) {
      startProcess()
      ()
    } else if (acts > 0 && ofActs.nextInt(ActBesideEvery) == 0) actOrStop()
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

  /** A sweep that does not know what the owner knows. */
  private def sweepAnyway(driver: SimProcess, baseMargin: Long): Unit = {
    baton.spawn("broken sweep", driver) {
      val sweep = new CutSweep(driver.archive, baseMargin, () => false)
      world.sweeping { () =>
        try sweep.run(invariants.last - plan.keep, retained = Set.empty)
        catch { case NonFatal(_) => () }
        ()
      }
    }
    ()
  }

  /** Without faults a query goes on to its end, and what no cut needs is swept. */
  private def finish(): Unit = {
    val driver = world.newProcess(CutRetention(plan.keep))
    invariants.keptMs = 0L
    acts = 0
    actsInFlight = 0
    // As the error would say that the query ends with.
    if (invariants.isLeftByAct) {
      // Its start has the entry of the last cut written, where that is missing.
      for (one <- Seq(() => driver.newRun(target), () => driver.newAct(None))) {
        val running = one()
        baton.yieldUntil(running.isOver)
      }
    }
    val swept = plan.keep + plan.baseMargin + plan.sweepEpochs + 2
    val more = if (world.hasSavepoints) 2 * swept else swept
    // Acts may have gone beyond it.
    val end = Math.max(target, invariants.last + 1) + more
    val last = driver.newRun(end)
    // What savepoints need of old segments then, no cut does.
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
    // A base that was adopted late is named by cuts after the oldest kept one.
    val late =
      driver.archive.cuts.read(invariants.last).toSeq.flatMap(_.retainedSegments(oldest)).toSet
    new CutSweep(driver.archive, plan.baseMargin, () => false).run(oldest, late)
    val left = invariants.orphans(world.names)
    orphans = left.size
    if (left.nonEmpty) invariants.violated(s"the sweep left ${left.mkString(", ")}")
    reader(driver)
    driver.crash()
  }

  /** What a fresh reader finds is what the log of commits shows. */
  private def reader(driver: SimProcess): Unit = {
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
    // A run that had been followed may have died between its cut and the entry, which a later run
    // writes only if it continues from that cut.
    def mayLackEntry(epoch: Long) =
      invariants.late(epoch) || invariants.left(epoch) || invariants.isLeftBehind(epoch)
    def told(epochs: Seq[Long]) = epochs.filterNot(mayLackEntry).sorted
    if (told(listed) != told(shown)) invariants.violated(s"commits $listed instead of $shown")
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

  /** For a reader, who commits nothing. */
  private object NoGate extends GateOfNoQuery {
    override def checkOwner(): Unit = ()
    override def commit(epoch: Long, entry: String): String =
      throw new UnsupportedOperationException
  }

  val MaxRuns = 60
  val MaxDisturbances = 10
  val MaxBases = 8

  /** In runs with savepoints. */
  val MaxPins = 6
  val PinEvery = 10
  val MaxLateBases = 20

  /** Acts are drawn in one of so many runs, and then up to so many. */
  val ActsEvery = 2
  val MaxActs = 6
  val MaxActsInFlight = 2

  /** Likewise, of the moments when no query runs. */
  val ExpiresEvery = 3
  val MaxExpiries = 3

  /** Of the steps of the supervisor while a query runs. */
  val ActBesideEvery = 50
  val SupervisorWeight = 4

  /** It acts seldom, so that what it does has to be likelier than what strikes a request. */
  val Rate = 2.0

  /** What another driver does then is what a seal is there for. */
  val RateWhenSealing = 20.0
}

/** The gate of who begins no query. */
private[sim] trait GateOfNoQuery extends QueryCommitter {
  override def begin(): Option[Begun] = None
  override def atStart(name: String)(act: Begun => Unit): Unit = ()
}
