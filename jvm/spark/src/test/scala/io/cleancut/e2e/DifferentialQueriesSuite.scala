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

/**
 * Queries drawn from a seed, each with failures and restarts, on Cleancut's provider and on Spark's
 * RocksDB provider: every epoch must have the same rows, and the state must be the same at the end.
 *
 * `CLEANCUT_QUERIES` is how many are run, `CLEANCUT_FIRST_SEED` the seed of the first of them, and
 * `CLEANCUT_SEED` the seed of the only one.
 */
class DifferentialQueriesSuite extends AnyFunSuite with AgainstRocksDb {
  import DifferentialQueriesSuite._

  // Enough for both providers at a time, and a second attempt for each task.
  override protected def master: String = "local[4, 2]"

  private val sessions = new SessionPool(spark)
  private val threads = Executors.newFixedThreadPool(2)
  implicit private val context: ExecutionContext = ExecutionContext.fromExecutor(threads)

  override protected def afterAll(): Unit = {
    threads.shutdownNow()
    super.afterAll()
  }

  test("drawn queries give the rows and the state of the built-in provider") {
    val drawn = seeds.map(new DrawnQuery(_))
    // At once, for whoever breaks off a long run.
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val outcomes = drawn.map(query => query -> outcome(query))
    val found = outcomes.collect { case (query, Right(found)) => query -> found }
    Summary.lines(found).foreach(info(_))
    val differences = outcomes.collect { case (query, Left(difference)) => s"$query: $difference" }
    assert(differences.isEmpty, differences.mkString("\n", "\n", ""))
    if (seeds.size >= StatefulOperators.all.size) {
      assert(found.exists(_._2.struck.nonEmpty), "no failure struck")
      val missing = StatefulOperators.all.map(_.name).diff(drawn.map(_.operator.name))
      assert(missing.isEmpty, "are operators that were never drawn")
    }
  }

  private def outcome(query: DrawnQuery): Outcome = {
    val home = Files.createTempDirectory("cleancut-differential")
    def on(provider: String)(body: ProviderRun => Outcome): Outcome =
      sessions.use(ProviderRun.settings(provider, query)) { session =>
        body(new ProviderRun(session, provider, query, home.resolve(provider)))
      }
    try
      on(classOf[CleancutStateStoreProvider].getName) { ours =>
        on(AgainstRocksDb.RocksDb)(theirs => both(Seq(ours, theirs)))
      }
    catch {
      case NonFatal(e) => Left(e.toString)
    } finally {
      // The next query sets another maintenance interval, which holds for all stores of the JVM.
      LoadedStores.stop()
      FileUtils.deleteDirectory(home.toFile)
    }
  }

  private def both(runs: Seq[ProviderRun]): Outcome =
    try {
      val found = Await.result(Future.sequence(runs.map(run => Future(Try(run())))), Limit)
      (found.head, found.last) match {
        case (Success(ours), Success(theirs)) => difference(ours, theirs).toLeft(ours)
        case (ours, theirs)                   =>
          Left(s"ours ${DrawnRuns.ending(ours)}, theirs ${DrawnRuns.ending(theirs)}")
      }
    } finally runs.foreach(_.cancel())
}

object DifferentialQueriesSuite {

  /** What Cleancut gave, or how the other differs. */
  private type Outcome = Either[String, Found]

  private val Limit = Patience.Seconds.seconds

  /** One in so many operators is met by `make test`. */
  private val UsualShare = 40

  // The operators take turns.
  private val seeds: Seq[Long] = {
    val drawn = DrawnRuns.seeds("CLEANCUT_QUERIES", default = StatefulOperators.all.size.toLong)
    if (sys.env.contains("CLEANCUT_QUERIES")) drawn else drawn.grouped(UsualShare).map(_.head).toSeq
  }

  /** The first difference between what Cleancut gave and what RocksDB gave. */
  private def difference(ours: Found, theirs: Found): Option[String] = {
    def unlike[T](what: String, our: T, their: T): Option[String] =
      Option.when(our != their)(s"$what: $our instead of $their")
    val epochs = ours.epochs.zip(theirs.epochs).flatMap { case (our, their) =>
      unlike("epoch", our.id, their.id).orElse(rows(s"epoch ${our.id}", our.rows, their.rows))
    }
    val state = theirs.state.keySet.intersect(ours.state.keySet).toSeq.sorted.flatMap { part =>
      rows(s"state $part", ours.state(part), theirs.state(part))
    }
    unlike("incidents", ours.struck, theirs.struck)
      .orElse(epochs.headOption)
      .orElse(unlike("epochs", ours.epochs.map(_.id), theirs.epochs.map(_.id)))
      .orElse(unlike("stores", ours.state.keySet, theirs.state.keySet))
      .orElse(state.headOption)
  }

  private def rows(where: String, ours: Seq[String], theirs: Seq[String]): Option[String] =
    Option.when(ours != theirs) {
      val (more, fewer) = (ours.diff(theirs), theirs.diff(ours))
      s"$where: ${more.size} rows too many ${more.take(5)}, ${fewer.size} missing ${fewer.take(5)}"
    }
}

/** What a number of queries have covered. */
private object Summary {
  def lines(found: Seq[(DrawnQuery, Found)]): Seq[String] = {
    val all = found.map(_._2)
    Seq(
      s"queries: ${found.size}: ${counts(found.map(_._1.operator.name))}",
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
