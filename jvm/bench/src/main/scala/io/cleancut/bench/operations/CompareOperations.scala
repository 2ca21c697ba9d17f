package io.cleancut.bench.operations

import io.cleancut.bench.base.{ChildJvm, Figures}

/**
 * Duration of offline operations that reference existing frames, by number of stores, as Markdown.
 */
object CompareOperations {

  /** @param partitions partitions of the query, with four stores each */
  def run(partitions: Seq[Int], turns: Int): Unit = {
    println("\n### Operations by reference\n")
    println(Figures.table("stores" +: OperationsBench.Operations, Nil))
    partitions.foreach { count =>
      val durations = ChildJvm
        .run(OperationsBench, Seq(count, turns).map(_.toString))
        .collect { case Array(operation, _, ns) => operation -> ns.toLong }
        .groupMap(_._1)(_._2)
      val times = OperationsBench.Operations.map(operation =>
        f"${Figures.median(durations(operation)) / 1e9}%.2f s"
      )
      println(Figures.row((count * OperationsBench.StoresOfPartition).toString +: times))
    }
  }
}
