package io.cleancut.bench.operations

import io.cleancut.bench.base.{ChildJvm, Figures}

/** How long acts take that refer to what is there, by the number of stores, as Markdown. */
object CompareActs {

  /** @param partitions of the query, each of which has four stores */
  def run(partitions: Seq[Int], turns: Int): Unit = {
    println("\n### Acts by reference\n")
    println(Figures.table("stores" +: ActsBench.Acts, Nil))
    partitions.foreach { count =>
      val found = ChildJvm
        .run(ActsBench, Seq(count, turns).map(_.toString))
        .collect { case Array(act, _, ns) => act -> ns.toLong }
        .groupMap(_._1)(_._2)
      val times = ActsBench.Acts.map(act => f"${Figures.median(found(act)) / 1e9}%.2f s")
      println(Figures.row((count * ActsBench.StoresOfPartition).toString +: times))
    }
  }
}
