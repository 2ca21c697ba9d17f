package io.cleancut.coordinator

import java.util.concurrent.Executors

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.sim.{Defect, Fault, Outcome, SimInputs, Simulation}
import io.cleancut.testkit.LongTest
import io.cleancut.testkit.inputs.InputLog

/**
 * Simulates the protocol of cuts with crashes, zombie drivers and an object store that loses
 * responses. [[io.cleancut.coordinator.sim.Invariants]] are checked after every step.
 *
 * `CLEANCUT_SIMULATIONS` sets the number of runs, `CLEANCUT_FIRST_SEED` the seed of the first run.
 * `CLEANCUT_SEED` selects a single run. `CLEANCUT_DEFECT_RUNS` limits the runs that search for a
 * planted defect.
 */
class CutSimulationSuite extends AnyFunSuite {
  import CutSimulationSuite._

  test("no epoch is lost, duplicated or committed by two runs despite all faults") {
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val tally = new Tally
    concurrently(seeds)(tally += reported(_))
    tally.lines.foreach(info(_))
    if (seeds.size == 1) tally.failed.flatMap(_.events).foreach(info(_))
    val failures = tally.failed.take(MaxNamed).map(described)
    assert(failures.isEmpty, failures.mkString("\n", "\n", ""))
    if (seeds.size >= Enough) {
      assert(tally.fenced > 0, "no driver was fenced")
      assert(tally.recovered > 0, "no epoch was recovered from the frames of an earlier run")
      assert(tally.missing.isEmpty, "these faults never struck")
      val long = tally.runsWith(Fault.LongUpload)
      assert(long * 20 >= seeds.size, "runs had a base whose upload lasted longer than the margin")
    }
  }

  test("hundreds of tasks in an epoch", LongTest) {
    val run = new Simulation(seeds.head, tasks = Some(ManyTasks)).run()
    info(s"seed ${seeds.head}: ${run.epochs} epochs, ${run.steps} steps")
    assert(run.violations.isEmpty, described(run))
  }

  test("runs that were wrong before corrections are right") {
    val runs = concurrently(OfDefects ++ OfChecks)(identity)
    val wrong = runs.filter(_.violations.nonEmpty).map(described)
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
  }

  test("a seed gives the same run each time") {
    for (seed <- seeds.take(MaxReplayed)) {
      val (first, second) = (new Simulation(seed).run(), new Simulation(seed).run())
      assert(first.steps == second.steps && first.faults == second.faults, s"seed $seed")
      assert(first.events == second.events, s"seed $seed")
    }
  }

  for (defect <- Defect.all)
    test(s"the simulation finds the defect $defect") {
      val searched = Iterator.from(1).take(MaxRunsPerDefect).map(_.toLong)
      val signs = (known(defect).iterator ++ searched).flatMap { seed =>
        val violations = new Simulation(seed, defect).run().violations
        violations.find(defect.shows).map(sign => s"in run $seed: $sign")
      }
      val violation = signs.nextOption()
      assert(violation.isDefined, s"in $MaxRunsPerDefect runs")
      violation.foreach(info(_))
    }
}

object CutSimulationSuite {
  private val Enough = 200

  /** More runs than cores, because no thread of a run is ready while its next one wakes up. */
  private val Concurrent = 4 * Runtime.getRuntime.availableProcessors
  private val MaxRunsPerDefect = sys.env.get("CLEANCUT_DEFECT_RUNS").fold(600)(_.toInt)
  private val MaxNamed = 5

  /**
   * By defects: a run that seals after its epoch was committed by another run; an entry that
   * appears after its run has ended; an entry that a later owner deletes; an epoch with stores of
   * two failed attempts at a task; a fenced run that plans an epoch before its cut exists.
   */
  private val OfDefects =
    Seq(7000017391L, 7000013731L, 7000015272L, 7000054258L, 7000057929L, 7000059231L)

  /** By wrong checks: delayed cuts; runs that always end; a report of a crashed executor. */
  private val OfChecks =
    Seq(7000000415L, 7000020168L, 7000038743L, 7000041865L, 7000045896L, 7000063341L)
  private val MaxReplayed = 2
  private val ManyTasks = 200

  /**
   * Seeds of short runs that show a defect. They are tried first, because a search can last a
   * minute. Campaigns always search, and so does a run after a change of the generator has moved
   * the seed.
   */
  private val Known: Map[Defect, Long] = Map(
    Defect.NoConditions -> 2L,
    Defect.SchemeTrusted -> 487L,
    Defect.NoAttempts -> 9L,
    Defect.EarlyAck -> 3L,
    Defect.NoMargin -> 4L,
    Defect.NotSpared -> 16L,
    Defect.NeverSealed -> 195L,
    Defect.NotReplayed -> 1L,
    Defect.Undecided -> 51L,
    Defect.Unreported -> 1L,
    Defect.FirstEqual -> 28L,
    Defect.SealsLost -> 20L,
    Defect.KeptAsMade -> 20L,
    Defect.ShownAsMade -> 404L,
    Defect.NoClaim -> 18L,
    Defect.Blind -> 7L,
    Defect.EndedTooEarly -> 3L,
    Defect.EarlyMerge -> 13L,
    Defect.AllCounted -> 20L,
    Defect.OperationsUnseen -> 22L,
    Defect.OperationForgets -> 16L,
    Defect.OperationAsTasks -> 10L,
    Defect.SourceUnchecked -> 82L,
    Defect.AgesByHostClock -> 38L,
    Defect.CollectedWhenFenced -> 146L,
    Defect.ExpiredWhenFenced -> 13L,
    Defect.ListBeforeOwning -> 1L,
    Defect.AbsenceKept -> 1L,
    Defect.ReadForEarlierRun -> 5L,
    Defect.EntryUnawaited -> 13L,
    Defect.EndedBeforeCut -> 33L,
    Defect.EndedBeforeEntry -> 9L,
    Defect.EndedAfterFailure -> 71L,
    Defect.CutUnawaited -> 1L,
    Defect.EntryBeforeCut -> 1L,
    Defect.SealUnawaited -> 37L,
    Defect.CutUnchecked -> 36L,
    Defect.TakeoverUnwritten -> 15L,
    Defect.TakeoverLate -> 66L,
    Defect.TakeoverUnseen -> 5L,
    Defect.LaterOwnerUnseen -> 7L
  )

  private def concurrently[A](seeds: Seq[Long])(use: Outcome => A): Seq[A] = {
    val threads = Executors.newFixedThreadPool(Concurrent)
    try seeds.map(seed => threads.submit(() => use(new Simulation(seed).run()))).map(_.get())
    finally threads.shutdown()
  }

  private def reported(run: Outcome): Outcome = {
    InputLog.default.add(SimInputs.Space, run.seed, SimInputs.covered(run))
    run
  }

  private def known(defect: Defect): Option[Long] =
    if (seeds.size > Enough) None else Known.get(defect)

  private val seeds: Seq[Long] = {
    def number(name: String): Option[Long] = sys.env.get(name).map(_.toLong)
    val first = number("CLEANCUT_FIRST_SEED").getOrElse(1L)
    val count = number("CLEANCUT_SIMULATIONS").getOrElse(20L)
    number("CLEANCUT_SEED").map(Seq(_)).getOrElse(first until first + count)
  }

  private def described(run: Outcome): String =
    s"seed ${run.seed}: ${run.violations.take(MaxNamed).mkString("\n  ", "\n  ", "")}"

  /** The sums of many runs. */
  final private class Tally {
    private var runs = 0
    private var epochs = 0L
    var recovered = 0
    var fenced = 0
    private var lost = 0
    private var duplicated = 0
    private var orphans = 0
    private var steps = 0L
    private var faults = Map.empty[Fault, Int]
    private var struck = Map.empty[Fault, Int]
    var failed = Seq.empty[Outcome]

    def +=(run: Outcome): Unit = synchronized {
      runs += 1
      epochs += run.epochs
      recovered += run.recovered
      fenced += run.fenced
      lost += run.lost
      duplicated += run.duplicated
      orphans += run.orphans
      steps += run.steps
      run.faults.foreach { case (fault, n) =>
        faults = faults.updated(fault, faults.getOrElse(fault, 0) + n)
        struck = struck.updated(fault, struck.getOrElse(fault, 0) + 1)
      }
      if (run.violations.nonEmpty) failed :+= run
    }

    /** The number of runs in which a fault has struck. */
    def runsWith(fault: Fault): Int = struck.getOrElse(fault, 0)

    def missing: Seq[Fault] = Fault.all.filterNot(faults.contains)

    def lines: Seq[String] = Seq(
      s"runs $runs, epochs $epochs, steps $steps, recovered epochs $recovered, fenced $fenced",
      s"lost rows $lost, duplicated rows $duplicated, orphans after garbage collection $orphans, " +
        s"failed runs ${failed.size}: ${failed.map(_.seed).sorted.mkString(" ")}",
      Fault.all
        .map(f => s"${f.name} ${faults.getOrElse(f, 0)} in ${runsWith(f)} runs")
        .mkString("; ")
    )
  }
}
