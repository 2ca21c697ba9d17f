package io.cleancut.bench.operations

import io.cleancut.bench.base.{ChildJvm, Figures}

/**
 * Duration of operations that rewrite or reference the complete state of a stopped query, as
 * Markdown.
 */
object CompareRewrites {
  private val header =
    Seq(
      "operation",
      "keys",
      "partitions",
      "time",
      "keys per second",
      "Spark's time / time",
      "first epoch",
      "median epoch",
      "longest from the third"
    )

  /** @param text selects the operations whose figure contains it */
  def run(keys: Seq[Int], turns: Int, text: String): Unit = {
    println("\n### Rewritten state\n")
    println(Figures.table(header, Nil))
    keys.foreach(rows(_, turns, text).foreach(row => println(Figures.row(row))))
  }

  private def rows(keys: Int, turns: Int, text: String): Seq[Seq[String]] = {
    val durations = ChildJvm
      .run(RewriteBench, Seq(keys.toString, turns.toString, text))
      .collect { case Array(operation, _, ns) => operation -> ns.toLong }
      .groupMap(_._1)(_._2)
      .map { case (operation, all) => operation -> Figures.median(all) }
    val sparks = durations.get(RewriteBench.SparksOwn.figure)
    def seconds(figure: String) = durations.get(figure).fold("")(ns => f"${ns / 1e9}%.2f s")
    RewriteBench.named(text).map { operation =>
      val ns = durations(operation.figure)
      Seq(
        operation.name,
        keys.toString,
        s"${operation.before} to ${operation.partitions}",
        f"${ns / 1e9}%.1f s",
        f"${keys * 1e9 / ns}%.0f",
        sparks.fold("")(Figures.ratio(ns, _)),
        seconds(operation.first),
        seconds(operation.median),
        seconds(operation.longest)
      )
    }
  }
}
