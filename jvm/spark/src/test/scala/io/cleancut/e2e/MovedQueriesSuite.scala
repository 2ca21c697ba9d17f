package io.cleancut.e2e

import java.nio.file.{Files, Path}

import scala.util.Random
import scala.util.control.NonFatal

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.classic
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  OfflineOperation,
  OfflinePlan
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.OfflineSource
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{LoadedStores, LongTest, SessionPool}
import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/**
 * Queries drawn from a seed, of every stateful operator, that are stopped between their steps and
 * given to another provider, to Cleancut and, where the line of Spark lets them, back: they must
 * give the rows and the state that they give where they are never moved.
 */
class MovedQueriesSuite extends AnyFunSuite with AgainstRocksDb {
  import MovedQueriesSuite._

  private val sessions = new SessionPool(spark)

  test(
    "queries that are adopted, and released again, give what they give where they are",
    LongTest
  ) {
    checkAll(outcome)
  }

  test("queries that are rescaled give what they give where they are", LongTest) {
    checkAll(rescaled)
  }

  test("queries that are rolled back, and brought back, give what they give where they are") {
    checkAll(rolledBack)
  }

  test("queries whose bases refer to earlier ones give what they give where they are", LongTest) {
    checkAll(referring, seedsOfReferring)
  }

  /** Each drawn query gives what it is to give, and rows have moved. */
  private def checkAll(
      outcomeOf: DrawnQuery => Either[String, Long],
      seeds: Seq[Long] = seeds
  ) = {
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val outcomes = seeds.map(seed => seed -> outcomeOf(new DrawnQuery(seed)))
    val wrong = outcomes.collect { case (seed, Left(what)) => s"CLEANCUT_SEED=$seed $what" }
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
    val rows = outcomes.map(_._2.fold(_ => 0L, identity)).sum
    info(s"${outcomes.size} queries, $rows rows moved")
    assert(rows > 0)
  }

  /** To other numbers of partitions and on to others. */
  private def rescaled(query: DrawnQuery): Either[String, Long] = acted(query) { random =>
    var now = query.settings("spark.sql.shuffle.partitions").toInt
    (1 until query.steps.size).map { step =>
      // Any number but that which there is.
      now = 1 + (now + random.nextInt(8)) % 9
      val partitions = now
      step -> ((_: Path) => Seq(OfflineOperation.rescale(partitions)))
    }
  }

  /** To any epoch before the last one, and to that again. */
  private def rolledBack(query: DrawnQuery): Either[String, Long] = acted(query) { random =>
    (1 until query.steps.size).map { step =>
      val draw = random.nextInt(100)
      step -> { (root: Path) =>
        val epochs = epochsOf(root)
        if (epochs.isEmpty) Nil
        else
          Seq(
            OfflineOperation.rollback(OfflineSource.Epoch(epochs(draw % epochs.length))),
            OfflineOperation.rollback(OfflineSource.BeforeRollback)
          )
      }
    }
  }

  /**
   * Before each step to multiples or parts of the partitions that there are, and to an earlier
   * epoch and back; none of it copies a row.
   */
  private def referring(query: DrawnQuery): Either[String, Long] = {
    val random = new Random(query.seed)
    acted(query, Some(random), countOf = of => if (of.copiesRows) fail(s"$of") else 1L) { random =>
      var now = query.settings("spark.sql.shuffle.partitions").toInt
      (1 until query.steps.size).map { step =>
        val scales = Seq.fill(1 + random.nextInt(2)) {
          val parts = (1 until now).filter(now % _ == 0)
          val multiples = (2 * now to Math.max(MostPartitions, 2 * now) by now)
          now = DrawnQuery.oneOf(random, parts ++ multiples: _*)
          OfflineOperation.rescale(now)
        }
        val draw = random.nextInt(100)
        val isBack = random.nextBoolean()
        step -> { (root: Path) =>
          val epochs = epochsOf(root)
          val back = epochs.lift(draw % Math.max(epochs.length, 1)).filter(_ => isBack).toSeq
          scales ++ back.flatMap { epoch =>
            Seq(
              OfflineOperation.rollback(OfflineSource.Epoch(epoch)),
              OfflineOperation.rollback(OfflineSource.BeforeRollback)
            )
          }
        }
      }
    }
  }

  private def epochsOf(root: Path): Array[Long] =
    root.resolve("commits").toFile.list.flatMap(_.toLongOption).sorted.dropRight(1)

  /** On either provider, with cuts or without, with acts before some of its steps. */
  private def acted(
      query: DrawnQuery,
      withCuts: Option[Random] = None,
      countOf: OfflinePlan => Long = rowsOf
  )(draw: Random => Seq[(Int, Path => Seq[OfflineOperation])]): Either[String, Long] = {
    val home = Files.createTempDirectory("cleancut-moved")
    val random = withCuts.getOrElse(new Random(query.seed))
    val asked = DrawnQuery.oneOf(random, Cleancut, Cleancut, AgainstRocksDb.RocksDb)
    val drawn = if (TestedSpark.ActsWriteForSpark) asked else Cleancut
    val provider = if (withCuts.isDefined) Cleancut else drawn
    val isWithCuts = withCuts.isDefined || (provider == Cleancut && random.nextBoolean())
    val own = if (isWithCuts) WithCuts else Map.empty
    var moved = 0L
    def run(name: String, moves: Seq[(Int, Path => Seq[OfflineOperation])]): Found =
      sessions.use(ProviderRun.settings(provider, query) ++ own) { session =>
        val root = home.resolve(name)
        val acts = moves.map { case (step, actsAt) =>
          step -> (() => {
            LoadedStores.stop()
            val of = session.asInstanceOf[classic.SparkSession]
            actsAt(root).takeWhile(act => !isGone(moved += countOf(act.run(of, root.toString))))
            ()
          })
        }
        new ProviderRun(session, name, query.calm, root)(acts.toMap)
      }
    try {
      val (stayed, found) = (run("stayed", Nil), run("acted", draw(random)))
      difference(found.undivided, stayed.undivided)
        .map(d => s"$query, $provider $own: $d")
        .toLeft(moved)
    } catch { case NonFatal(e) => Left(told(query, s"$provider $own", e)) }
    finally {
      LoadedStores.stop()
      val _ = FileUtils.deleteQuietly(home.toFile)
    }
  }

  /** What is still in the logs, and not in the store any more, or not among the cuts. */
  private def isGone(act: => Unit): Boolean =
    try {
      act
      false
    } catch {
      case e: CleancutException if Gone.exists(e.getMessage.contains(_)) => true
    }

  private def told(query: DrawnQuery, provider: String, e: Throwable): String = {
    val trace = e +: Iterator.iterate(e.getCause)(_.getCause).takeWhile(_ != null).toSeq
    val frames = trace.last.getStackTrace.take(12).mkString("\n")
    s"$query, $provider:\n${trace.map(_.toString.take(600)).mkString("\nBY ")}\n$frames"
  }

  private def outcome(query: DrawnQuery): Either[String, Long] = {
    val home = Files.createTempDirectory("cleancut-moved")
    val random = new Random(query.seed)
    val first = if (onHdfs(query) && random.nextBoolean()) Hdfs else AgainstRocksDb.RocksDb
    val own = settings(first, random)
    var moved = 0L
    def run(name: String, moves: Seq[(Int, String)]): Found =
      sessions.use(ProviderRun.settings(first, query) ++ own) { session =>
        val root = home.resolve(name)
        val acts = moves.map { case (step, provider) =>
          step -> (() => moved += move(session.asInstanceOf[classic.SparkSession], root, provider))
        }
        new ProviderRun(session, name, query.calm, root)(acts.toMap)
      }
    try {
      val steps = query.steps.size
      val there = 1 + random.nextInt(steps - 1)
      val back = Option.when(there + 1 < steps && TestedSpark.ActsWriteForSpark)(
        there + 1 + random.nextInt(steps - there - 1)
      )
      val moves = (there -> Cleancut) +: back.toSeq.map(_ -> AgainstRocksDb.RocksDb)
      val stayed = run("stayed", Nil)
      val found = run("moved", moves)
      difference(found, stayed).map(d => s"$query, $first, $moves: $d").toLeft(moved)
    } catch { case NonFatal(e) => Left(told(query, first, e)) }
    finally {
      LoadedStores.stop()
      val _ = FileUtils.deleteQuietly(home.toFile)
    }
  }

  private def move(session: classic.SparkSession, root: Path, provider: String): Long = {
    LoadedStores.stop()
    rowsOf(
      (if (provider == Cleancut) OfflineOperation.ToCleancut else OfflineOperation.ToRocksDb)
        .run(session, root.toString)
    )
  }
}

private object MovedQueriesSuite {
  val Gone = Seq("no longer exists", "is not stored; committed epochs")

  val MostPartitions = 9

  def rowsOf(done: OfflinePlan): Long = done.operators.flatMap(_.rows).sum

  val Hdfs = "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider"
  val Cleancut = classOf[CleancutStateStoreProvider].getName

  /** One in so many operators is met by `make test`. */
  private val UsualShare = 48

  // The operators take turns.
  val seeds: Seq[Long] = {
    val drawn = DrawnRuns.seeds("CLEANCUT_MOVES", default = StatefulOperators.all.size.toLong)
    if (sys.env.contains("CLEANCUT_MOVES")) drawn else drawn.grouped(UsualShare).map(_.head).toSeq
  }

  /** As many as of all others, where so many are asked for. */
  val seedsOfReferring: Seq[Long] =
    if (sys.env.contains("CLEANCUT_MOVES")) seeds else seeds.takeRight(2)

  /** It has neither column families nor ids of versions. */
  def onHdfs(query: DrawnQuery): Boolean =
    !query.operator.name.contains("transformWithState") &&
      !query.settings.get("spark.sql.streaming.join.stateFormatVersion").exists(_.toInt > 2)

  /** With files of changes, or without; ids of versions there are with them only. */
  def settings(provider: String, random: Random): Map[String, String] =
    if (provider == Hdfs) FirstFormat
    else if (random.nextInt(3) > 0) Map.empty
    else FirstFormat + (Changelog -> "false")

  val WithCuts: Map[String, String] = Map(
    Keys.Cuts.name -> "true",
    "spark.sql.streaming.checkpointFileManagerClass" ->
      classOf[CleancutCheckpointFileManager].getName
  )

  private val FirstFormat = Map("spark.sql.streaming.stateStore.checkpointFormatVersion" -> "1")
  private val Changelog =
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled"

  /** But for the numbers of epochs: a move is one. */
  def difference(found: Found, stayed: Found): Option[String] = {
    def unlike[T](what: String, one: T, other: T) =
      Option.when(one != other)(s"$what: $one instead of $other")
    found.epochs
      .zip(stayed.epochs)
      .flatMap { case (one, other) => unlike(s"epoch ${other.id}", one.rows, other.rows) }
      .headOption
      .orElse(unlike("epochs", found.epochs.size, stayed.epochs.size))
      .orElse(unlike("state", found.state, stayed.state))
  }
}
