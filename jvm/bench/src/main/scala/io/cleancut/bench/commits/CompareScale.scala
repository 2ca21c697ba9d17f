package io.cleancut.bench.commits

import io.cleancut.bench.base.{ChildJvm, Figures}

/** Scale of the coordinator with many stores, as Markdown. */
object CompareScale {

  /** A query with a number of stores, on an object store with a request latency. */
  final private case class Case(
      executors: Int,
      partitions: Int,
      stores: Int,
      chain: Int,
      delayMs: Int,
      format: Int,
      hasInFlight: Boolean
  ) {
    def arguments: Seq[String] = {
      val inFlight = if (hasInFlight) 1 else 0
      Seq(executors, stores, partitions, chain, delayMs, format, inFlight).map(_.toString)
    }
  }

  /** Off-heap memory of the objects in the store. */
  private val Objects = "14g"

  private val header = Seq(
    "executors",
    "partitions",
    "stores per partition",
    "format",
    "in-flight rows",
    "deltas",
    "delay",
    "frames per second",
    "commit",
    "CPU",
    "driver CPU",
    "commit CPU",
    "tick",
    "wait for the lock",
    "minimum",
    "segments and pages",
    "other requests",
    "cut",
    "heap",
    "read of a cut",
    "read by an executor",
    "requests of the read",
    "frames",
    "load",
    "requests of the load"
  )

  /**
   * @param partitions
   *   numbers of partitions, with four stores each
   * @param chains
   *   numbers of deltas between two bases, which is the longest chain
   * @param inFlight
   *   whether there are in-flight rows
   */
  def run(
      partitions: Seq[Int],
      delaysMs: Seq[Int],
      chains: Seq[Int],
      format: Int,
      inFlight: Seq[Boolean]
  ): Unit = {
    println("\n### Scale of the coordinator\n")
    println(Figures.table(header, Nil))
    val cases = for {
      delayMs <- delaysMs
      count <- partitions
      chain <- chains
      has <- inFlight
    } yield Case(Math.max(count / 10, 10), count, 4, chain, delayMs, format, has)
    cases.foreach(one => println(Figures.row(measured(one))))
  }

  private def measured(one: Case): Seq[String] = {
    val all = ChildJvm
      .run(ScaleBench, one.arguments, Seq(s"-XX:MaxDirectMemorySize=$Objects"))
      .collect { case Array(figure, _, number) => figure -> number.toLong }
      .groupMap(_._1)(_._2)
    val medians = all.map { case (figure, numbers) => figure -> Figures.median(numbers) }
    val parameters = Seq(one.executors, one.partitions, one.stores, one.format)
    parameters.map(_.toString) ++ Seq(
      if (one.hasInFlight) "yes" else "no",
      one.chain.toString,
      s"${one.delayMs} ms",
      medians("frames per second").toString,
      Figures.time(medians("commit, ns")),
      Figures.time(medians("CPU, ns")),
      Figures.time(medians("driver CPU, ns")),
      Figures.time(medians("commit CPU, ns")),
      Figures.time(medians("tick, ns")),
      Figures.time(medians("longest wait for the lock, ns")),
      Figures.time(all("longest wait for the lock, ns").min),
      medians("segments and pages").toString,
      medians("other requests").toString,
      megabytes(medians("cut, bytes")),
      megabytes(medians("heap, bytes")),
      Figures.time(medians("read of a cut, ns")),
      Figures.time(medians("read by an executor, ns")),
      medians("requests of an executor").toString,
      medians("frames").toString,
      Figures.time(medians("load, ns")),
      medians("requests of loads").toString
    )
  }

  private def megabytes(bytes: Long): String = f"${bytes / 1e6}%.3f MB"
}
