package io.cleancut.bench

/** How figures are condensed and shown. */
object Figures {
  def median(all: Seq[Long]): Long = all.sorted.apply(all.size / 2)

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
