package io.cleancut.bench.operations

import io.cleancut.bench.base.{ChildJvm, Figures}

/** How long acts take that refer to what is there, by the number of stores, as Markdown. */
object CompareActs {

  /** @param partitions of the query, each of which has four stores */
  def run(partitions: Seq[Int], turns: Int): Unit = {
    println("\n### Acts by reference\n")
    println(Figures.table("stores" +: OperationsBench.Acts, Nil))
    partitions.foreach { count =>
      val found = ChildJvm
        .run(OperationsBench, Seq(count, turns).map(_.toString))
        .collect { case Array(act, _, ns) => act -> ns.toLong }
        .groupMap(_._1)(_._2)
      val times = OperationsBench.Acts.map(act => f"${Figures.median(found(act)) / 1e9}%.2f s")
      println(Figures.row((count * OperationsBench.StoresOfPartition).toString +: times))
    }
  }
}
