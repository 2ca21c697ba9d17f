package io.cleancut.faults

import scala.collection.mutable

/** The totals of many runs. */
final class FaultTally {
  private val struck = mutable.LinkedHashMap.empty[Plan, Int]
  private var queries = 0
  private var sealing = 0
  private var epochs = 0
  private var deaths = 0
  var rows: RowCounts = RowCounts.None
  var remains: Remains = Remains(Nil, Nil)

  def injected(strikes: Map[Plan, Int]): Unit = strikes.foreach { case (plan, times) =>
    struck(plan) = struck.getOrElse(plan, 0) + times
  }

  def ended(query: FaultedQuery, run: FaultRun, left: Remains): Unit = {
    queries += 1
    if (query.seals) sealing += 1
    epochs += query.sink.size
    deaths += run.deaths.size
    rows += query.sink.counts(query.input.counts)
    remains = Remains(remains.orphans ++ left.orphans, remains.missing ++ left.missing)
  }

  /** A table of strikes by step and fault. */
  def table(isLasting: Boolean): Seq[String] = {
    val counts = struck.toSeq.collect { case (plan, n) if plan.isLasting == isLasting => plan -> n }
    val kinds = FaultKind.all.filter(kind => counts.exists(_._1.kind == kind))
    val steps = counts.map(_._1.step).distinct.sortBy(_.toString)
    val cells = steps.map { step =>
      def count(kind: FaultKind) = counts.collect { case (Plan(`step`, `kind`, _), n) => n }.sum
      step.toString +: kinds.map(kind => if (kind.concerns(step)) count(kind).toString else "")
    }
    val header = "step" +: kinds.map(_.name)
    if (counts.isEmpty) Nil else (header +: cells).map(_.mkString(" | "))
  }

  def sums: Seq[String] = Seq(
    s"faults injected ${struck.values.sum}, of ${struck.size} kinds and steps; " +
      s"queries $queries, of which $sealing seal, epochs $epochs, deaths $deaths",
    s"lost rows ${rows.lost}, duplicated rows ${rows.duplicated}, " +
      s"out of order ${rows.outOfOrder}, " +
      s"orphans after garbage collection ${remains.orphans.size}, " +
      s"missing objects ${remains.missing.size}"
  )
}
