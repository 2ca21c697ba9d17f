package io.cleancut.bench.queries

import io.cleancut.bench.base.{ChildJvm, Figures}

/** `in_sequence` compared with `dropDuplicates`, as Markdown. */
object CompareSequence {
  private val Epochs = 10

  def run(events: Int, keys: Seq[Int], turns: Int): Unit = keys.foreach { count =>
    println(s"\n### $events events of $count keys, 5 % late by up to 10,000, 1 % twice\n")
    val samples = ChildJvm
      .run(SequenceBench, Seq(events, Epochs, count, turns).map(_.toString))
      .collect { case Array(what, _, ns, cpuNs) => (what, ns.toLong, cpuNs.toLong) }
    def medians(figure: ((String, Long, Long)) => Long): Map[String, Long] =
      samples.groupMap(_._1)(figure).map { case (what, ns) => what -> Figures.median(ns) }
    val (times, processors) = (medians(_._2), medians(_._3))
    val rows = samples.map(_._1).distinct.map { what =>
      val base = what.replace("in_sequence", "dropDuplicates")
      Seq(
        what,
        Figures.time(times(what)),
        f"${events * 1e9 / times(what)}%,.0f",
        Figures.ratio(times(what), times(base)),
        Figures.time(processors(what)),
        Figures.ratio(processors(what), processors(base))
      )
    }
    val over = "dropDuplicates' time / time"
    println(
      Figures.table(Seq("", "time", "events per second", over, "CPU time", over), rows)
    )
  }
}
