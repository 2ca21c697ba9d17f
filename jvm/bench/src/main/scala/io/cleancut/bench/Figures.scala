package io.cleancut.bench

/** A mean and its 95 % interval. */
final case class Interval(mean: Double, margin: Double)

/** How figures are condensed and shown. */
object Figures {
  def median(all: Seq[Long]): Long = all.sorted.apply(all.size / 2)

  /** Nearest rank: a value that was really measured. */
  def percentile(all: Seq[Long], percent: Int): Long =
    all.sorted.apply(Math.ceil(all.size * percent / 100.0).toInt - 1)

  /** The mean, with what lies to either side of it in 95 of 100 such measurements. */
  def interval(all: Seq[Double]): Interval = {
    val mean = all.sum / all.size
    val variance = all.map(x => (x - mean) * (x - mean)).sum / Math.max(all.size - 1, 1)
    Interval(mean, Normal95 * Math.sqrt(variance / all.size))
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
