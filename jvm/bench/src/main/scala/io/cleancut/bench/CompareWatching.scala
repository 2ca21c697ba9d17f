package io.cleancut.bench

/** What it costs that epochs are told of, as Markdown. */
object CompareWatching {
  private val Rows = 20000

  def run(partitions: Seq[Int], pairs: Int): Unit = {
    println("\n### Telling of epochs\n")
    println(Figures.table(Seq("partitions", "pairs", "told", "not told", "median of ratios"), Nil))
    partitions.foreach { count =>
      val found = ChildJvm
        .run("io.cleancut.bench.WatchBench", Seq(pairs, count, Rows).map(_.toString))
        .collect { case Array(_, on, off) => (on.toLong, off.toLong) }
      def ms(of: Seq[Long]) = f"${Figures.median(of) / 1e6}%.1f ms"
      val ratios = found.map { case (on, off) => on * 10000L / off }
      println(
        Figures.row(
          Seq(
            count.toString,
            found.size.toString,
            ms(found.map(_._1)),
            ms(found.map(_._2)),
            f"${Figures.median(ratios) / 1e4}%.3f"
          )
        )
      )
    }
  }
}
