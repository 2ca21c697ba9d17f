package io.cleancut.bench.commits

import io.cleancut.bench.base.{ChildJvm, Figures}

/**
 * What it costs that epochs are told of, as Markdown. Half of the pairs are of a JVM in which the
 * query that is told of was started first, and half of one in which the other was; the ratio is the
 * geometric mean of both medians.
 */
object CompareWatching {
  private val Rows = 20000

  def run(partitions: Seq[Int], pairs: Int): Unit = {
    println("\n### Telling of epochs\n")
    println(Figures.table(Seq("partitions", "pairs", "told", "not told", "ratio"), Nil))
    partitions.foreach { count =>
      val halves = Seq(true, false).map { toldFirst =>
        val arguments = Seq(pairs / 2, count, Rows).map(_.toString) :+ toldFirst.toString
        ChildJvm
          .run(WatchBench, arguments)
          .collect { case Array(_, on, off) => (on.toLong, off.toLong) }
      }
      val found = halves.flatten
      def ms(of: Seq[Long]) = f"${Figures.median(of) / 1e6}%.1f ms"
      val ratios =
        halves.map(half => Figures.median(half.map { case (on, off) => on * 10000L / off }))
      println(
        Figures.row(
          Seq(
            count.toString,
            found.size.toString,
            ms(found.map(_._1)),
            ms(found.map(_._2)),
            f"${Math.sqrt(ratios.map(_ / 1e4).product)}%.3f"
          )
        )
      )
    }
  }
}
