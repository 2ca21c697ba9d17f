package io.cleancut.bench.operations

import io.cleancut.bench.base.{ChildJvm, Figures}

/** How long it takes to write all state of a stopped query anew, or to refer to it, as Markdown. */
object CompareRewrites {
  private val header =
    Seq("act", "keys", "partitions", "time", "keys a second", "over Spark's own", "first epoch")

  def run(keys: Seq[Int], turns: Int): Unit = {
    println("\n### Rewritten state\n")
    println(Figures.table(header, Nil))
    keys.foreach(rows(_, turns).foreach(row => println(Figures.row(row))))
  }

  private def rows(keys: Int, turns: Int): Seq[Seq[String]] = {
    val found = ChildJvm
      .run(RewriteBench, Seq(keys, turns).map(_.toString))
      .collect { case Array(act, _, ns) => act -> ns.toLong }
      .groupMap(_._1)(_._2)
      .map { case (act, all) => act -> Figures.median(all) }
    val sparks = found(RewriteBench.SparksOwn.name)
    RewriteBench.Acts.map { act =>
      val ns = found(act.name)
      Seq(
        act.name,
        keys.toString,
        s"${RewriteBench.Before} to ${act.partitions}",
        f"${ns / 1e9}%.1f s",
        f"${keys * 1e9 / ns}%.0f",
        Figures.ratio(ns, sparks),
        found.get(act.next).fold("")(next => f"${next / 1e9}%.1f s")
      )
    }
  }
}
