package io.cleancut.bench.commits

import io.cleancut.bench.base.{ChildJvm, Figures}

/** How the coordinator fares with many stores, as Markdown. */
object CompareScale {

  /** A query of so many stores, on a store that takes so long for a request. */
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

  /** For the objects of the store, which lie beside the heap. */
  private val Objects = "14g"

  private val header = Seq(
    "executors",
    "partitions",
    "stores of each",
    "format",
    "in-flight rows",
    "deltas",
    "delay",
    "frames a second",
    "gate",
    "CPU",
    "of the driver",
    "of the gate",
    "tick",
    "wait for the lock",
    "minimum",
    "segments and pages",
    "other requests",
    "cut",
    "heap",
    "read of a cut",
    "by an executor",
    "its requests",
    "frames",
    "load",
    "its requests"
  )

  /**
   * @param partitions
   *   the numbers to take, with four stores each
   * @param chains
   *   the deltas between two bases, which is the most that a chain has beside its base
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
    val found = all.map { case (figure, numbers) => figure -> Figures.median(numbers) }
    val parameters = Seq(one.executors, one.partitions, one.stores, one.format)
    parameters.map(_.toString) ++ Seq(
      if (one.hasInFlight) "yes" else "no",
      one.chain.toString,
      s"${one.delayMs} ms",
      found("frames a second").toString,
      Figures.time(found("gate, ns")),
      Figures.time(found("CPU, ns")),
      Figures.time(found("CPU of the driver, ns")),
      Figures.time(found("CPU of the gate, ns")),
      Figures.time(found("tick, ns")),
      Figures.time(found("longest wait for the lock, ns")),
      Figures.time(all("longest wait for the lock, ns").min),
      found("segments and pages").toString,
      found("other requests").toString,
      megabytes(found("cut, bytes")),
      megabytes(found("heap, bytes")),
      Figures.time(found("read of a cut, ns")),
      Figures.time(found("read by an executor, ns")),
      found("requests of an executor").toString,
      found("frames").toString,
      Figures.time(found("load, ns")),
      found("requests of loads").toString
    )
  }

  private def megabytes(bytes: Long): String = f"${bytes / 1e6}%.3f MB"
}
