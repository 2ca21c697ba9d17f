package io.cleancut.bench.commits

import io.cleancut.bench.base.{ChildJvm, Figures}

/**
 * Cost of history records for each epoch, as Markdown. In half of the pairs the query with history
 * was started first in its JVM, and in the other half the query without history; the ratio is the
 * geometric mean of both medians.
 */
object CompareWatching {
  private val Rows = 20000

  def run(partitions: Seq[Int], pairs: Int): Unit = {
    println("\n### Epoch history\n")
    println(
      Figures.table(Seq("partitions", "pairs", "with history", "without history", "ratio"), Nil)
    )
    partitions.foreach { count =>
      val halves = Seq(true, false).map { historyFirst =>
        val arguments = Seq(pairs / 2, count, Rows).map(_.toString) :+ historyFirst.toString
        ChildJvm
          .run(WatchBench, arguments)
          .collect { case Array(_, on, off) => (on.toLong, off.toLong) }
      }
      val times = halves.flatten
      def ms(samples: Seq[Long]) = f"${Figures.median(samples) / 1e6}%.1f ms"
      val ratios =
        halves.map(half => Figures.median(half.map { case (on, off) => on * 10000L / off }))
      println(
        Figures.row(
          Seq(
            count.toString,
            times.size.toString,
            ms(times.map(_._1)),
            ms(times.map(_._2)),
            f"${Math.sqrt(ratios.map(_ / 1e4).product)}%.3f"
          )
        )
      )
    }
  }
}
