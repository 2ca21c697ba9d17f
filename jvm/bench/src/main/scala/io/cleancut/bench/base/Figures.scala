package io.cleancut.bench.base

/** An estimate with its 95 % confidence interval. */
final case class Interval(low: Double, estimate: Double, high: Double)

/** Statistics and formatting of measurements. */
object Figures {
  def median(all: Seq[Long]): Long = all.sorted.apply(all.size / 2)

  /** Nearest rank: a value that was measured. */
  def percentile(all: Seq[Long], percent: Int): Long =
    all.sorted.apply(Math.ceil(all.size * percent / 100.0).toInt - 1)

  /**
   * The Hodges-Lehmann estimate (1963) with Wilcoxon's confidence interval. Unlike a mean, it is
   * robust against periods in which another process uses the caches.
   */
  def interval(all: Seq[Double]): Interval = {
    val n = all.size
    val means = (for (i <- 0 until n; j <- i until n) yield (all(i) + all(j)) / 2).sorted
    val deviation = Math.sqrt(n * (n + 1) * (2 * n + 1) / 24.0)
    val rank = Math.max(0, Math.floor(means.size / 2.0 - Normal95 * deviation).toInt)
    Interval(means(rank), means(means.size / 2), means(means.size - 1 - rank))
  }

  private val Normal95 = 1.96

  def time(ns: Long): String =
    if (ns < 10000) s"$ns ns"
    else if (ns < 1000000) f"${ns / 1e3}%.0f µs"
    else f"${ns / 1e6}%.1f ms"

  /** How many times faster the first is. */
  def ratio(ours: Long, theirs: Long): String = f"${theirs.toDouble / ours}%.2f"

  /** A table in Markdown. */
  def table(header: Seq[String], rows: Seq[Seq[String]]): String =
    (header +: header.map(_ => "---") +: rows).map(row).mkString("\n")

  def row(cells: Seq[String]): String = cells.mkString("| ", " | ", " |")
}
