package io.cleancut.coordinator

import java.util.concurrent.Executors

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.coordinator.sim.{Defect, Fault, Outcome, Simulation}
import io.cleancut.testkit.LongTest

/**
 * The protocol of cuts under crashes, zombies and a store that loses answers, by simulation; see
 * [[io.cleancut.coordinator.sim.Invariants]] for what must hold after every step.
 *
 * `CLEANCUT_SIMULATIONS` is how many runs there are, `CLEANCUT_FIRST_SEED` the seed of the first of
 * them, and `CLEANCUT_SEED` the seed of the only one. `CLEANCUT_DEFECT_RUNS` is how many runs there
 * are at most until a planted defect is found.
 */
class CutSimulationSuite extends AnyFunSuite {
  import CutSimulationSuite._

  test("no epoch is lost, doubled or committed by two in spite of all faults") {
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val tally = new Tally
    val threads = Executors.newFixedThreadPool(Runtime.getRuntime.availableProcessors)
    try
      seeds
        .map(seed => threads.submit[Unit](() => tally += new Simulation(seed).run()))
        .foreach(_.get())
    finally threads.shutdown()
    tally.lines.foreach(info(_))
    if (seeds.size == 1) tally.failed.flatMap(_.events).foreach(info(_))
    val failures = tally.failed.take(MaxNamed).map(described)
    assert(failures.isEmpty, failures.mkString("\n", "\n", ""))
    if (seeds.size >= Enough) {
      assert(tally.fenced > 0, "no driver was fenced")
      assert(tally.recovered > 0, "no epoch was made of an earlier run's frames")
      assert(tally.missing.isEmpty, "are faults that never struck")
      val long = tally.runsWith(Fault.LongUpload)
      assert(long * 20 >= seeds.size, "runs had a base that was on its way for too many epochs")
    }
  }

  test("hundreds of tasks in an epoch", LongTest) {
    val run = new Simulation(seeds.head, tasks = Some(ManyTasks)).run()
    info(s"seed ${seeds.head}: ${run.epochs} epochs, ${run.steps} steps")
    assert(run.violations.isEmpty, described(run))
  }

  test("a seed gives the same run each time") {
    for (seed <- seeds.take(MaxReplayed)) {
      val (first, second) = (new Simulation(seed).run(), new Simulation(seed).run())
      assert(first.steps == second.steps && first.faults == second.faults, s"seed $seed")
      assert(first.events == second.events, s"seed $seed")
    }
  }

  for (defect <- Defect.all)
    test(s"a protocol with this defect is found out: $defect") {
      val searched = Iterator.from(1).take(MaxRunsPerDefect).map(_.toLong)
      val signs = (known(defect).iterator ++ searched).flatMap { seed =>
        val violations = new Simulation(seed, defect).run().violations
        violations.find(defect.shows).map(sign => s"in run $seed: $sign")
      }
      val found = signs.nextOption()
      assert(found.isDefined, s"in $MaxRunsPerDefect runs")
      found.foreach(info(_))
    }
}

object CutSimulationSuite {
  private val Enough = 200
  private val MaxRunsPerDefect = sys.env.get("CLEANCUT_DEFECT_RUNS").fold(600)(_.toInt)
  private val MaxNamed = 5
  private val MaxReplayed = 2
  private val ManyTasks = 200

  /**
   * Short runs that show a defect. They come first, because a search takes up to a minute. The
   * search is made in campaigns, and if a change of the generator has moved the run.
   */
  private val Known: Map[Defect, Long] = Map(
    Defect.NoConditions -> 9L,
    Defect.SchemeTrusted -> 47L,
    Defect.NoAttempts -> 601L,
    Defect.EarlyAck -> 3L,
    Defect.NoMargin -> 5L,
    Defect.NotSpared -> 16L,
    Defect.NeverSealed -> 325L,
    Defect.NotReplayed -> 4L,
    Defect.Undecided -> 248L,
    Defect.Unreported -> 18L,
    Defect.FirstEqual -> 37L,
    Defect.SealsLost -> 157L,
    Defect.KeptAsMade -> 157L,
    Defect.ShownAsMade -> 129L,
    Defect.NoClaim -> 170L,
    Defect.Blind -> 7L,
    Defect.EndedTooEarly -> 14L,
    Defect.EarlyMerge -> 11L,
    Defect.AllCounted -> 15L,
    Defect.ActsUnseen -> 13L,
    Defect.ActForgets -> 1L,
    Defect.ActAsTasks -> 17L,
    Defect.SourceUnchecked -> 3L,
    Defect.AgesByHostClock -> 7L,
    Defect.SweptBeside -> 79L,
    Defect.ExpiredBeside -> 7L
  )

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
    private var doubled = 0
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
      doubled += run.doubled
      orphans += run.orphans
      steps += run.steps
      run.faults.foreach { case (fault, n) =>
        faults = faults.updated(fault, faults.getOrElse(fault, 0) + n)
        struck = struck.updated(fault, struck.getOrElse(fault, 0) + 1)
      }
      if (run.violations.nonEmpty) failed :+= run
    }

    /** How many runs a fault has struck in. */
    def runsWith(fault: Fault): Int = struck.getOrElse(fault, 0)

    def missing: Seq[Fault] = Fault.all.filterNot(faults.contains)

    def lines: Seq[String] = Seq(
      s"runs $runs, epochs $epochs, steps $steps, recovered epochs $recovered, fenced $fenced",
      s"lost rows $lost, doubled rows $doubled, orphans after the sweep $orphans, " +
        s"failed runs ${failed.size}: ${failed.map(_.seed).sorted.mkString(" ")}",
      Fault.all
        .map(f => s"${f.name} ${faults.getOrElse(f, 0)} in ${runsWith(f)} runs")
        .mkString("; ")
    )
  }
}
