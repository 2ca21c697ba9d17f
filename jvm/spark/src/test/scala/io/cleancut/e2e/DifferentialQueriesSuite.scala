package io.cleancut.e2e

import java.nio.file.Files
import java.util.concurrent.Executors

import scala.concurrent.{Await, ExecutionContext, Future}
import scala.concurrent.duration._
import scala.util.{Success, Try}
import scala.util.control.NonFatal

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.testkit.{LoadedStores, Patience, SessionPool}
import io.cleancut.testkit.inputs.InputLog

/**
 * Randomized queries with failures and restarts, on Cleancut's provider and on Spark's RocksDB
 * provider. Each epoch must have the same rows, and the final state must be the same.
 *
 * `CLEANCUT_QUERIES` sets the number of queries, `CLEANCUT_FIRST_SEED` the first seed.
 * `CLEANCUT_SEED` selects a single query.
 */
class DifferentialQueriesSuite extends AnyFunSuite with RocksDbComparison {
  import DifferentialQueriesSuite._

  // Enough cores for both providers concurrently, and a second attempt for each task.
  override protected def master: String = "local[4, 2]"

  private val sessions = new SessionPool(spark)
  private val threads = Executors.newFixedThreadPool(2)
  implicit private val context: ExecutionContext = ExecutionContext.fromExecutor(threads)

  override protected def afterAll(): Unit = {
    threads.shutdownNow()
    super.afterAll()
  }

  test("randomized queries return the rows and the state of the built-in provider") {
    val queries = seeds.map(new RandomQuery(_))
    // Printed first, in case a long run is interrupted.
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val outcomes = queries.map(query => query -> outcome(query))
    val results = outcomes.collect { case (query, Right(result)) => query -> result }
    Summary.lines(results).foreach(info(_))
    val differences = outcomes.collect { case (query, Left(difference)) => s"$query: $difference" }
    assert(differences.isEmpty, differences.mkString("\n", "\n", ""))
    if (seeds.size >= StatefulOperators.all.size) {
      assert(results.exists(_._2.struck.nonEmpty), "no failure struck")
      val missing = StatefulOperators.all.map(_.name).diff(queries.map(_.operator.name))
      assert(missing.isEmpty, "these operators were never drawn")
    }
  }

  private def outcome(query: RandomQuery): Outcome = {
    InputLog.default.add(RandomQueryInputs.Space, query.seed, query.covered)
    val home = Files.createTempDirectory("cleancut-differential")
    def on(provider: String)(body: ProviderRun => Outcome): Outcome =
      sessions.use(ProviderRun.settings(provider, query)) { session =>
        body(new ProviderRun(session, provider, query, home.resolve(provider)))
      }
    try
      on(classOf[CleancutStateStoreProvider].getName) { ours =>
        on(RocksDbComparison.RocksDb)(theirs => both(Seq(ours, theirs)))
      }
    catch {
      case NonFatal(e) => Left(e.toString)
    } finally {
      // The next query sets another maintenance interval, which applies to all stores of the JVM.
      LoadedStores.stop()
      FileUtils.deleteDirectory(home.toFile)
    }
  }

  private def both(runs: Seq[ProviderRun]): Outcome =
    try {
      val results = Await.result(Future.sequence(runs.map(run => Future(Try(run())))), Limit)
      (results.head, results.last) match {
        case (Success(ours), Success(theirs)) => difference(ours, theirs).toLeft(ours)
        case (ours, theirs)                   =>
          Left(s"ours ${RandomRuns.ending(ours)}, theirs ${RandomRuns.ending(theirs)}")
      }
    } finally runs.foreach(_.cancel())
}

object DifferentialQueriesSuite {

  /** The result on Cleancut, or the difference of the other. */
  private type Outcome = Either[String, RunResult]

  private val Limit = Patience.Seconds.seconds

  /** `make test` runs one of this many operators. */
  private val UsualShare = 40

  // Consecutive seeds have different operators.
  private val seeds: Seq[Long] = {
    val drawn = RandomRuns.seeds("CLEANCUT_QUERIES", default = StatefulOperators.all.size.toLong)
    if (sys.env.contains("CLEANCUT_QUERIES")) drawn else drawn.grouped(UsualShare).map(_.head).toSeq
  }

  /** The first difference between the results on Cleancut and on RocksDB. */
  private def difference(ours: RunResult, theirs: RunResult): Option[String] = {
    def compareValues[T](what: String, our: T, their: T): Option[String] =
      Option.when(our != their)(s"$what: $our instead of $their")
    val epochs = ours.epochs.zip(theirs.epochs).flatMap { case (our, their) =>
      compareValues("epoch", our.id, their.id).orElse(
        rows(s"epoch ${our.id}", our.rows, their.rows)
      )
    }
    val state = theirs.state.keySet.intersect(ours.state.keySet).toSeq.sorted.flatMap { part =>
      rows(s"state $part", ours.state(part), theirs.state(part))
    }
    compareValues("incidents", ours.struck, theirs.struck)
      .orElse(epochs.headOption)
      .orElse(compareValues("epochs", ours.epochs.map(_.id), theirs.epochs.map(_.id)))
      .orElse(compareValues("stores", ours.state.keySet, theirs.state.keySet))
      .orElse(state.headOption)
  }

  private def rows(where: String, ours: Seq[String], theirs: Seq[String]): Option[String] =
    Option.when(ours != theirs) {
      val (more, fewer) = (ours.diff(theirs), theirs.diff(ours))
      s"$where: ${more.size} rows too many ${more.take(5)}, ${fewer.size} missing ${fewer.take(5)}"
    }
}

/** The totals of a set of queries. */
private object Summary {
  def lines(results: Seq[(RandomQuery, RunResult)]): Seq[String] = {
    val all = results.map(_._2)
    Seq(
      s"queries: ${results.size}: ${counts(results.map(_._1.operator.name))}",
      s"epochs: ${all.map(_.epochs.size).sum}, restarts: ${all.map(_.restarts).sum}, " +
        s"failures: ${all.map(_.struck.size).sum}: ${counts(all.flatMap(_.struck.map(_.kind)))}",
      s"rows of epochs: ${all.flatMap(_.epochs.map(_.rows.size)).sum}, " +
        s"rows of state: ${all.flatMap(_.state.values.map(_.size)).sum}"
    )
  }

  private def counts(names: Seq[String]): String =
    names
      .groupBy(identity)
      .toSeq
      .map { case (name, all) => s"$name ${all.size}" }
      .sorted
      .mkString("; ")
}
