package io.cleancut.e2e

import org.apache.spark.sql.Row
import org.apache.spark.sql.streaming.OutputMode

/**
 * The output and final state of a query.
 *
 * @param epochs
 *   rows of each epoch
 * @param state
 *   final state by store; empty if it cannot be compared
 * @param fed
 *   positions of epochs that may have processed in-flight rows of the previous epoch
 */
final case class QueryOutput(
    columns: Seq[String],
    epochs: Seq[Seq[Row]],
    state: Map[String, Seq[String]],
    fed: Set[Int] = Set.empty
)

object QueryOutput {
  def texts(rows: Seq[Row]): Seq[String] = rows.map(_.toString)
}

/**
 * The difference between the output of a query and the expected output. In append mode all rows
 * count, in update mode the last row of each key, and in complete mode the last epoch.
 *
 * @param lost
 *   missing rows
 * @param duplicated
 *   duplicated rows
 * @param disordered
 *   rows after a later row of their key
 * @param state
 *   stores with wrong rows, each with its difference
 */
final case class Difference(
    lost: Seq[String],
    duplicated: Seq[String],
    disordered: Seq[String],
    state: Seq[String]
) {
  def isNone: Boolean = lost.isEmpty && duplicated.isEmpty && disordered.isEmpty && state.isEmpty

  override def toString: String =
    Seq("lost" -> lost, "duplicated" -> duplicated, "out of order" -> disordered, "state" -> state)
      .collect { case (what, rows) if rows.nonEmpty => s"${rows.size} $what ${rows.take(5)}" }
      .mkString(", ")
}

object Difference {
  def of(query: UnalignedQuery, actual: QueryOutput, expected: QueryOutput): Difference = {
    val (have, want) = (counting(query, actual), counting(query, expected))
    val stores = (expected.state.keySet ++ actual.state.keySet).toSeq.sorted
    Difference(
      lost = want.diff(have),
      duplicated = have.diff(want),
      disorder(query, actual),
      stores.flatMap { store =>
        val had = actual.state.getOrElse(store, Nil)
        val due = expected.state.getOrElse(store, Nil)
        val (more, fewer) = (had.diff(due), due.diff(had))
        Option.when(more.nonEmpty || fewer.nonEmpty)(
          s"$store: more ${more.take(5)}, fewer ${fewer.take(5)}"
        )
      }
    )
  }

  private def counting(query: UnalignedQuery, run: QueryOutput): Seq[String] =
    query.operator.mode match {
      case mode if mode == OutputMode.Append() =>
        // The number of a row is its arrival order, which is checked separately.
        val rows = run.epochs.flatten
        QueryOutput.texts(if (query.isByRow) rows.map(withoutNumber) else rows)
      case mode if mode == OutputMode.Complete() =>
        run.epochs.lastOption.fold(Seq.empty[String])(QueryOutput.texts)
      case _ => QueryOutput.texts(byKey(run).values.map(_.last).toSeq)
    }

  private def withoutNumber(row: Row): Row = Row.fromSeq(row.toSeq.init)

  /**
   * Rows by key, in the order of the output. The key is the columns before the count, as text
   * because a NaN does not equal itself.
   */
  private def byKey(run: QueryOutput): Map[String, Seq[Row]] =
    run.epochs.flatten.groupBy(_.toSeq.take(count(run)).mkString("|"))

  private def count(run: QueryOutput): Int = run.columns.indexWhere(_.startsWith("count"))

  /** Rows that are not after all earlier rows of their key. */
  private def unsorted(run: QueryOutput): Seq[String] =
    run.epochs.flatten.groupBy(_.getLong(0)).values.toSeq.flatMap { rows =>
      rows.zip(rows.drop(1)).collect {
        case (before, row) if row.getLong(1) <= before.getLong(1) => row.toString
      }
    }

  /** Rows of a key that arrived in one epoch and are in several sessions. */
  private def divided(query: UnalignedQuery, run: QueryOutput): Seq[String] = {
    val rows = for ((rows, epoch) <- run.epochs.zipWithIndex; row <- rows) yield epoch -> row
    rows
      .groupBy { case (_, row) => (row.getLong(0), UnalignedQuery.stepOf(row.getLong(1))) }
      .values
      .map(arrived => if (query.hasTtl) beforeExpiry(run, arrived) else arrived.map(_._2))
      .filter(_.map(_.getLong(2)).distinct.size > 1)
      .flatMap(QueryOutput.texts)
      .toSeq
  }

  /**
   * Rows that read the same state with TTL: those of two epochs, if no in-flight rows reach the
   * first. Rows that stay in flight longer may read expired state.
   */
  private def beforeExpiry(run: QueryOutput, arrived: Seq[(Int, Row)]): Seq[Row] = {
    val first = arrived.map(_._1).min
    val last = if (run.fed(first)) first else first + 1
    arrived.collect { case (epoch, row) if epoch <= last => row }
  }

  private def disorder(query: UnalignedQuery, run: QueryOutput): Seq[String] =
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
