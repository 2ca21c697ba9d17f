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
import io.cleancut.testkit.inputs.InputLog
import io.cleancut.testkit.{LoadedStores, LongTest, SessionPool}
import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/**
 * Randomized queries of each stateful operator with offline operations between their steps:
 * conversion to Cleancut and, if the Spark version permits it, back, rescale and rollback. They
 * must return the rows and the state that they return without operations.
 */
class RandomOperationsSuite extends AnyFunSuite with RocksDbComparison {
  import OperationInputs.{Converted, Referring, Rescaled, RolledBack}
  import RandomOperationsSuite._

  private val sessions = new SessionPool(spark)

  test(
    "queries that are converted to Cleancut and back return the same rows and state",
    LongTest
  ) {
    checkAll(Converted, outcome)
  }

  test("queries that are rescaled return the same rows and state", LongTest) {
    checkAll(Rescaled, rescaled)
  }

  test("queries that are rolled back and forth return the same rows and state") {
    checkAll(RolledBack, rollBack)
  }

  test("queries whose bases refer to earlier frames return the same rows and state", LongTest) {
    checkAll(Referring, referring, seedsOfReferring)
  }

  /** Checks that each randomized query has the expected result, and that operations moved rows. */
  private def checkAll(
      operations: String,
      outcomeOf: (RandomQuery, FirstStore) => Either[String, Long],
      seeds: Seq[Long] = seeds
  ) = {
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val outcomes = seeds.map { seed =>
      val query = new RandomQuery(seed)
      val inputs = OperationInputs.covered(operations, query)
      InputLog.default.addPart(OperationInputs.Space, s"$operations $seed", inputs)
      seed -> outcomeOf(query, OperationInputs.storeOf(operations, query))
    }
    val wrong = outcomes.collect { case (seed, Left(difference)) =>
      s"CLEANCUT_SEED=$seed $difference"
    }
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
    val rows = outcomes.map(_._2.fold(_ => 0L, identity)).sum
    info(s"${outcomes.size} queries, $rows rows moved")
    assert(rows > 0)
  }

  /** Rescales the query before each step. */
  private def rescaled(query: RandomQuery, store: FirstStore): Either[String, Long] =
    runOperations(query, store) { random =>
      var now = query.settings("spark.sql.shuffle.partitions").toInt
      (1 until query.steps.size).map { step =>
        // Any number but the current one.
        now = 1 + (now + random.nextInt(8)) % 9
        val partitions = now
        step -> ((_: Path) => Seq(OfflineOperation.rescale(partitions)))
      }
    }

  /** Rolls back to an earlier epoch before each step, and back to the last one. */
  private def rollBack(query: RandomQuery, store: FirstStore): Either[String, Long] =
    runOperations(query, store) { random =>
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
   * Rescales before each step, more often to multiples and divisors of the partitions than to other
   * numbers, and rolls back and forth. Counts the operations that copy no row, which are all except
   * some rescales to other numbers.
   */
  private def referring(query: RandomQuery, store: FirstStore): Either[String, Long] =
    runOperations(
      query,
      store,
      countOf = { plan =>
        val (before, after) = (plan.partitionsBefore, plan.partitions)
        val isOther = before % after != 0 && after % before != 0
        if (plan.copiesRows && !isOther) fail(s"$plan")
        if (plan.copiesRows) 0L else 1L
      }
    ) { random =>
      var now = query.settings("spark.sql.shuffle.partitions").toInt
      (1 until query.steps.size).map { step =>
        val scales = Seq.fill(1 + random.nextInt(2)) {
          val parts = (1 until now).filter(now % _ == 0)
          val multiples = (2 * now to Math.max(MostPartitions, 2 * now) by now)
          now =
            if (random.nextBoolean()) RandomQuery.oneOf(random, parts ++ multiples: _*)
            // Any number but the current one.
            else 1 + (now + random.nextInt(MostPartitions - 1)) % MostPartitions
          OfflineOperation.rescale(now)
        }
        val draw = random.nextInt(100)
        val rollsBack = random.nextBoolean()
        step -> { (root: Path) =>
          val epochs = epochsOf(root)
          val back = epochs.lift(draw % Math.max(epochs.length, 1)).filter(_ => rollsBack).toSeq
          scales ++ back.flatMap { epoch =>
            Seq(
              OfflineOperation.rollback(OfflineSource.Epoch(epoch)),
              OfflineOperation.rollback(OfflineSource.BeforeRollback)
            )
          }
        }
      }
    }

  private def epochsOf(root: Path): Array[Long] =
    root.resolve("commits").toFile.list.flatMap(_.toLongOption).sorted.dropRight(1)

  /** Runs the query without operations, and with operations before some steps. */
  private def runOperations(
      query: RandomQuery,
      store: FirstStore,
      countOf: OfflinePlan => Long = rowsOf
  )(draw: Random => Seq[(Int, Path => Seq[OfflineOperation])]): Either[String, Long] = {
    val home = Files.createTempDirectory("cleancut-moved")
    val random = new Random(query.seed)
    val confs = if (store.hasCuts) WithCuts else Map.empty
    var moved = 0L
    def run(name: String, moves: Seq[(Int, Path => Seq[OfflineOperation])]): RunResult =
      sessions.use(ProviderRun.settings(store.provider, query) ++ confs) { session =>
        val root = home.resolve(name)
        val operations = moves.map { case (step, operationsAt) =>
          step -> (() => {
            LoadedStores.stop()
            val classicSession = session.asInstanceOf[classic.SparkSession]
            operationsAt(root).takeWhile { operation =>
              !isExpired(moved += countOf(operation.run(classicSession, root.toString)))
            }
            ()
          })
        }
        new ProviderRun(session, name, query.calm, root)(operations.toMap)
      }
    try {
      val (stayed, operated) = (run("stayed", Nil), run("operated", draw(random)))
      difference(operated.undivided, stayed.undivided)
        .map(d => s"$query, ${store.name}: $d")
        .toLeft(moved)
    } catch { case NonFatal(e) => Left(describe(query, store.name, e)) }
    finally {
      LoadedStores.stop()
      val _ = FileUtils.deleteQuietly(home.toFile)
    }
  }

  /**
   * Whether an operation fails because its epoch is in the logs, but deleted from the stores or
   * cuts.
   */
  private def isExpired(operation: => Unit): Boolean =
    try {
      operation
      false
    } catch {
      case e: CleancutException if Expired.exists(e.getMessage.contains(_)) => true
    }

  private def describe(query: RandomQuery, store: String, e: Throwable): String = {
    val trace = e +: Iterator.iterate(e.getCause)(_.getCause).takeWhile(_ != null).toSeq
    val frames = trace.last.getStackTrace.take(12).mkString("\n")
    s"$query, $store:\n${trace.map(_.toString.take(600)).mkString("\nBY ")}\n$frames"
  }

  private def outcome(query: RandomQuery, store: FirstStore): Either[String, Long] = {
    val home = Files.createTempDirectory("cleancut-moved")
    val random = new Random(query.seed)
    val confs = settings(store, random)
    var moved = 0L
    def run(name: String, moves: Seq[(Int, String)]): RunResult =
      sessions.use(ProviderRun.settings(store.provider, query) ++ confs) { session =>
        val root = home.resolve(name)
        val operations = moves.map { case (step, provider) =>
          step -> (() => moved += move(session.asInstanceOf[classic.SparkSession], root, provider))
        }
        new ProviderRun(session, name, query.calm, root)(operations.toMap)
      }
    try {
      val steps = query.steps.size
      val there = 1 + random.nextInt(steps - 1)
      val back = Option.when(there + 1 < steps && TestedSpark.OperationsWriteForSpark)(
        there + 1 + random.nextInt(steps - there - 1)
      )
      val moves = (there -> Cleancut) +: back.toSeq.map(_ -> RocksDbComparison.RocksDb)
      val stayed = run("stayed", Nil)
      val converted = run("moved", moves)
      difference(converted, stayed).map(d => s"$query, ${store.name}, $moves: $d").toLeft(moved)
    } catch { case NonFatal(e) => Left(describe(query, store.name, e)) }
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

private object RandomOperationsSuite {
  val Expired = Seq("no longer exists", "is not stored; committed epochs")

  val MostPartitions = 9

  def rowsOf(done: OfflinePlan): Long = done.operators.flatMap(_.rows).sum

  val Cleancut = classOf[CleancutStateStoreProvider].getName

  /** `make test` runs one of this many operators. */
  private val UsualShare = 48

  // Consecutive seeds have different operators.
  val seeds: Seq[Long] = {
    val drawn = RandomRuns.seeds("CLEANCUT_MOVES", default = StatefulOperators.all.size.toLong)
    if (sys.env.contains("CLEANCUT_MOVES")) drawn else drawn.grouped(UsualShare).map(_.head).toSeq
  }

  /** The same number of seeds if it is configured, otherwise two. */
  val seedsOfReferring: Seq[Long] =
    if (sys.env.contains("CLEANCUT_MOVES")) seeds else seeds.takeRight(2)

  /** Settings with or without changelog files; version ids require changelog files. */
  def settings(store: FirstStore, random: Random): Map[String, String] =
    if (store == OperationInputs.Hdfs) FirstFormat
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

  /** Differences except epoch numbers, because an operation takes an epoch. */
  def difference(operated: RunResult, stayed: RunResult): Option[String] = {
    def unlike[T](what: String, one: T, other: T) =
      Option.when(one != other)(s"$what: $one instead of $other")
    operated.epochs
      .zip(stayed.epochs)
      .flatMap { case (one, other) => unlike(s"epoch ${other.id}", one.rows, other.rows) }
      .headOption
      .orElse(unlike("epochs", operated.epochs.size, stayed.epochs.size))
      .orElse(unlike("state", operated.state, stayed.state))
  }
}
