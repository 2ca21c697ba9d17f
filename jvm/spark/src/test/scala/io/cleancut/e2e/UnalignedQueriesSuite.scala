package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, Executors, TimeUnit}

import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration.Duration
import scala.util.{Failure, Success, Try}

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.{LoadedStores, SessionPool, TestDirectory}
import io.cleancut.testkit.inputs.InputLog

/**
 * Randomized queries that are cut at random times while tasks fail and drivers restart. The same
 * query runs on Spark's RocksDB provider without cuts and failures. No row may be lost, duplicated,
 * out of order or dropped as late, and the final state must be the same.
 *
 * `CLEANCUT_UNALIGNED_QUERIES` sets the number of runs, `CLEANCUT_FIRST_SEED` the first seed.
 * `CLEANCUT_SEED` selects a single run. `docs/project/campaign-records.md` lists long campaigns.
 */
class UnalignedQueriesSuite extends AnyFunSuite with RocksDbComparison {
  import UnalignedQueriesSuite._

  override protected def master: String = "local[4, 2]"

  private val sessions = new SessionPool(spark)
  private val answers = new ConcurrentHashMap[Long, QueryOutput]

  test("randomized queries with random cuts return the rows of queries without cuts") {
    note(s"seeds ${seeds.head} to ${seeds.last}, ${seeds.size} runs")
    val workers = Executors.newFixedThreadPool(Workers)
    val runs =
      try seeds.grouped(Round).flatMap(round(_, ExecutionContext.fromExecutor(workers))).toVector
      finally workers.shutdown()
    val tally = CampaignTally(runs)
    info(tally.toString)
    info(s"for docs/project/campaign-records.md: ${tally.row(seeds)}")
    val wrong = runs.filterNot(_.isRight)
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
    assert(tally.epochsInFlight > 0, "no epoch had in-flight rows")
  }

  /** Runs several queries concurrently, because one query does not use two cores. */
  private def round(seeds: Seq[Long], workers: ExecutionContext): Seq[CheckedRun] =
    TestDirectory.use("cleancut-unaligned") { home =>
      val runs = seeds.map(seed => Future(judged(new UnalignedFate(seed), home))(workers))
      try {
        val judged = runs.map(Await.result(_, Duration(PatienceMinutes, TimeUnit.MINUTES)))
        note(s"to ${seeds.last}: ${CampaignTally(judged)}")
        // Printed at once, because a campaign may take hours.
        judged.filterNot(_.isRight).foreach(run => note(run.toString))
        judged
      } finally LoadedStores.stop()
    }

  private def judged(fate: UnalignedFate, home: Path): CheckedRun = {
    InputLog.default.add(UnalignedInputs.Space, fate.seed, fate.covered)
    CheckedRun(
      fate,
      for {
        expected <- Try(answer(fate.query, home))
        run <- Try(sessions.use(fate.settings) { session =>
          new UnalignedRun(session, fate, home.resolve(fate.seed.toString))()
        })
      } yield run -> Difference.of(fate.query, run.gave, expected)
    )
  }

  private def answer(query: UnalignedQuery, home: Path): QueryOutput =
    answers.computeIfAbsent(
      query.number,
      number =>
        sessions.use(ReferenceOutput.settings(query)) { session =>
          ReferenceOutput.of(session, query, home.resolve(s"uncut-$number"))
        }
    )
}

object UnalignedQueriesSuite {

  /** An aggregation, session windows, a join, functions by row, and all with processing time. */
  private val UsualSeeds = Seq(3L, 4L, 9L, 21L, 26L, 27L, 28L, 29L)

  private val seeds: Seq[Long] = RandomRuns.seeds("CLEANCUT_UNALIGNED_QUERIES", UsualSeeds)

  private val Workers = 3
  // Stores of queries that have ended stay open until they are all closed.
  private val Round = 60
  private val PatienceMinutes = 20L
}

/** A run and its difference from the expected output. */
final case class CheckedRun(fate: UnalignedFate, outcome: Try[(CutRun, Difference)]) {
  def isRight: Boolean = outcome.toOption.exists { case (run, difference) =>
    difference.isNone && run.differing.isEmpty
  }

  override def toString: String = outcome match {
    case Failure(_)                 => s"$fate: ${RandomRuns.ending(outcome)}"
    case Success((run, difference)) =>
      s"$fate: $difference, epochs that changed when they ran again: ${run.differing}"
  }
}
