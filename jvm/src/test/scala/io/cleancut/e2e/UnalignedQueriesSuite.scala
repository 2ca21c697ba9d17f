package io.cleancut.e2e

import java.nio.file.Files

import scala.util.{Success, Try}

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.OutputMode

/**
 * Queries drawn from a seed, cut at random moments while tasks fail and drivers restart, beside the
 * same query on Spark's RocksDB provider without any of that: nothing may be lost, doubled or
 * dropped as late. Where a query appends, all rows must be the same; where it updates, the last of
 * each key; and the state at the end.
 *
 * `CLEANCUT_UNALIGNED_QUERIES` is how many are run, `CLEANCUT_FIRST_SEED` the seed of the first of
 * them, and `CLEANCUT_SEED` the seed of the only one.
 */
class UnalignedQueriesSuite extends AnyFunSuite with AgainstRocksDb {
  import UnalignedQueriesSuite._

  override protected def master: String = "local[4, 2]"

  test("drawn queries that are cut at random give the rows of queries that are not") {
    note(s"seeds ${seeds.head} to ${seeds.last}")
    val found = seeds.map(new UnalignedQuery(_)).map(query => query -> outcome(query))
    val cut = found.collect { case (query, Right(cut)) => query -> cut }
    val epochs = cut.map(_._2.inFlight.size).sum
    val open = cut.flatMap(_._2.inFlight).count(_ > 0)
    info(
      s"queries ${cut.size}, epochs $epochs, with rows in flight $open, rows in flight " +
        s"${cut.flatMap(_._2.inFlight).sum}, failures ${cut.map(_._2.struck).sum}, " +
        s"epochs that ran again behind their sink ${cut.map(_._2.again).sum}"
    )
    val wrong = found.collect { case (query, Left(problem)) => s"$query: $problem" }
    info(s"queries with lost, doubled or changed rows: ${wrong.size}")
    assert(wrong.isEmpty, wrong.mkString("\n", "\n", ""))
    assert(open > 0, "no epoch had rows in flight")
    if (seeds.size >= UnalignedQuery.operators.size) {
      val never = cut.groupBy(_._1.operator.name).collect {
        case (name, runs) if runs.forall(_._2.inFlight.forall(_ == 0)) => name
      }
      info(s"operators that never had rows in flight: ${never.mkString(", ")}")
    }
  }

  private def outcome(query: UnalignedQuery): Either[String, Uncut] = {
    val home = Files.createTempDirectory("cleancut-unaligned")
    def run(isCut: Boolean) =
      Try(new UnalignedRun(spark, query, home.resolve(isCut.toString), isCut)())
    try
      (run(isCut = false), run(isCut = true)) match {
        case (Success(plain), Success(cut)) => difference(query, plain, cut).toLeft(cut)
        case (plain, cut)                   =>
          Left(s"plain ${DrawnRuns.ending(plain)}, cut ${DrawnRuns.ending(cut)}")
      }
    finally {
      StateStore.stop()
      FileUtils.deleteDirectory(home.toFile)
    }
  }

  private def difference(query: UnalignedQuery, plain: Uncut, cut: Uncut): Option[String] = {
    val rows = query.operator.mode match {
      case mode if mode == OutputMode.Append() =>
        unlike("rows", cut.epochs.flatMap(_._2), plain.epochs.flatMap(_._2))
      case mode if mode == OutputMode.Complete() =>
        unlike("last epoch", last(cut), last(plain))
      case _ => unlike("last rows of keys", lastOfKeys(cut), lastOfKeys(plain))
    }
    val state = (plain.state.keySet ++ cut.state.keySet).toSeq.sorted.flatMap { part =>
      unlike(s"state $part", cut.state.getOrElse(part, Nil), plain.state.getOrElse(part, Nil))
    }
    val again = Option.when(cut.unlike.nonEmpty)(s"epochs ${cut.unlike} changed behind their seal")
    rows.orElse(state.headOption).orElse(again)
  }

  private def last(run: Uncut): Seq[String] = run.epochs.lastOption.fold(Seq.empty[String])(_._2)

  /** Keys are what stands before the first aggregate, which is a count. */
  private def lastOfKeys(run: Uncut): Seq[String] = {
    val columns = run.columns.indexWhere(_.startsWith("count"))
    val latest = run.epochs.flatMap(_._2).map { row =>
      row.split(",").take(columns + run.columns.take(columns).count(_ == "window")).toSeq -> row
    }
    latest.toMap.values.toSeq
  }

  private def unlike(what: String, cut: Seq[String], plain: Seq[String]): Option[String] = {
    val (more, fewer) = (cut.diff(plain), plain.diff(cut))
    Option.when(more.nonEmpty || fewer.nonEmpty)(
      s"$what: ${more.size} too many ${more.take(5)}, ${fewer.size} missing ${fewer.take(5)}"
    )
  }
}

object UnalignedQueriesSuite {
  private val seeds: Seq[Long] = DrawnRuns.seeds("CLEANCUT_UNALIGNED_QUERIES", default = 21L)
}
