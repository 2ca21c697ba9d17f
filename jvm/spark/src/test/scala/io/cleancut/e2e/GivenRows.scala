package io.cleancut.e2e

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.OutputMode

/**
 * What a query has given.
 *
 * @param epochs
 *   the rows of each
 * @param state
 *   at the end, by store; empty where it cannot be compared
 * @param fed
 *   positions of the epochs that in-flight rows of the epoch before may have reached
 */
final case class GivenRows(
    columns: Seq[String],
    epochs: Seq[Seq[Row]],
    state: Map[String, Seq[String]],
    fed: Set[Int] = Set.empty
)

object GivenRows {
  def texts(rows: Seq[Row]): Seq[String] = rows.map(_.toString)
}

/**
 * How what a query has given differs from what it is to give. Where it appends, all rows count;
 * where it updates, the last of each key; and in mode complete the last epoch.
 *
 * @param lost
 *   rows that are missing
 * @param doubled
 *   rows that are too many
 * @param disordered
 *   rows that came behind a later one of their key
 * @param state
 *   stores with other rows than they should have, each with what differs
 */
final case class Difference(
    lost: Seq[String],
    doubled: Seq[String],
    disordered: Seq[String],
    state: Seq[String]
) {
  def isNone: Boolean = lost.isEmpty && doubled.isEmpty && disordered.isEmpty && state.isEmpty

  override def toString: String =
    Seq("lost" -> lost, "doubled" -> doubled, "out of order" -> disordered, "state" -> state)
      .collect { case (what, rows) if rows.nonEmpty => s"${rows.size} $what ${rows.take(5)}" }
      .mkString(", ")
}

object Difference {
  def of(query: UnalignedQuery, found: GivenRows, expected: GivenRows): Difference = {
    val (have, want) = (counting(query, found), counting(query, expected))
    val stores = (expected.state.keySet ++ found.state.keySet).toSeq.sorted
    Difference(
      lost = want.diff(have),
      doubled = have.diff(want),
      disorder(query, found),
      stores.flatMap { store =>
        val had = found.state.getOrElse(store, Nil)
        val due = expected.state.getOrElse(store, Nil)
        val (more, fewer) = (had.diff(due), due.diff(had))
        Option.when(more.nonEmpty || fewer.nonEmpty)(
          s"$store: more ${more.take(5)}, fewer ${fewer.take(5)}"
        )
      }
    )
  }

  private def counting(query: UnalignedQuery, run: GivenRows): Seq[String] =
    query.operator.mode match {
      case mode if mode == OutputMode.Append() =>
        // The number of a row says when it came, which is judged apart.
        val rows = run.epochs.flatten
        GivenRows.texts(if (query.isByRow) rows.map(withoutNumber) else rows)
      case mode if mode == OutputMode.Complete() =>
        run.epochs.lastOption.fold(Seq.empty[String])(GivenRows.texts)
      case _ => GivenRows.texts(byKey(run).values.map(_.last).toSeq)
    }

  private def withoutNumber(row: Row): Row = Row.fromSeq(row.toSeq.init)

  /**
   * In the order in which they were given; keys are what stands before the count. As texts, since a
   * NaN does not equal itself.
   */
  private def byKey(run: GivenRows): Map[String, Seq[Row]] =
    run.epochs.flatten.groupBy(_.toSeq.take(count(run)).mkString("|"))

  private def count(run: GivenRows): Int = run.columns.indexWhere(_.startsWith("count"))

  /** Rows that are not after all earlier rows of their key. */
  private def unsorted(run: GivenRows): Seq[String] =
    run.epochs.flatten.groupBy(_.getLong(0)).values.toSeq.flatMap { rows =>
      rows.zip(rows.drop(1)).collect {
        case (before, row) if row.getLong(1) <= before.getLong(1) => row.toString
      }
    }

  /** Rows of a key that arrived in one epoch and are in several sessions. */
  private def divided(query: UnalignedQuery, run: GivenRows): Seq[String] = {
    val rows = for ((rows, epoch) <- run.epochs.zipWithIndex; row <- rows) yield epoch -> row
    rows
      .groupBy { case (_, row) => (row.getLong(0), UnalignedQuery.stepOf(row.getLong(1))) }
      .values
      .map(arrived => if (query.hasTtl) beforeExpiry(run, arrived) else arrived.map(_._2))
      .filter(_.map(_.getLong(2)).distinct.size > 1)
      .flatMap(GivenRows.texts)
      .toSeq
  }

  /**
   * Rows that find the same state with TTL: those of two epochs, if no in-flight rows reach the
   * first. Rows that stay in flight for longer may find expired state.
   */
  private def beforeExpiry(run: GivenRows, arrived: Seq[(Int, Row)]): Seq[Row] = {
    val first = arrived.map(_._1).min
    val last = if (run.fed(first)) first else first + 1
    arrived.collect { case (epoch, row) if epoch <= last => row }
  }

  private def disorder(query: UnalignedQuery, run: GivenRows): Seq[String] =
    if (query.isInSequence) unsorted(run)
    else if (query.hasSessions) unsorted(run) ++ divided(query, run)
    else if (query.isByRow) {
      val values = query.values
      run.epochs.flatten.groupBy(_.getLong(0)).toSeq.flatMap { case (key, rows) =>
        rows.sortBy(_.getLong(2)).zip(values(key)).zipWithIndex.collect {
          case ((row, value), at) if row.getLong(1) != value || row.getLong(2) != at + 1 =>
            row.toString
        }
      }
    } else if (query.operator.mode == OutputMode.Update()) {
      byKey(run).values.toSeq.flatMap { rows =>
        rows.zip(rows.drop(1)).collect {
          case (before, row) if row.getLong(count(run)) <= before.getLong(count(run)) =>
            row.toString
        }
      }
    } else Nil
}
