package io.cleancut.bench.queries

import io.cleancut.bench.base.{ChildJvm, Figures, Provider}

/**
 * Times complete queries on Cleancut and on Spark's providers, which take turns in one JVM for each
 * query, and prints medians and ratios as Markdown. A ratio above 1 is the factor by which Cleancut
 * is faster than the better of the others.
 */
object CompareQueries {
  private val Epochs = "3"

  /** Number of intervals of real-time mode that are measured: two, or those of 30 seconds. */
  private def latencyIntervals(seconds: Int): String = (30 / seconds).max(2).toString

  def run(names: Seq[String], turns: Int): Unit = table(
    "Complete queries",
    BenchQuery.all.filter(query => names.isEmpty || names.exists(query.name.contains(_))),
    turns
  )

  /** An aggregation with more keys, partitions, or earlier epochs than usual. */
  def grown(keys: Seq[Int], partitions: Seq[Int], fills: Seq[Int], turns: Int): Unit = {
    val header = Seq("keys", "partitions", "epochs before") ++
      Seq("Cleancut", "HDFS-backed", "best RocksDB", "over the better")
    println(s"\n### As the work grows\n")
    println(Figures.table(header, Nil))
    val usual = BenchQuery.aggregation(BenchQuery.Million)
    val grown = keys.map(BenchQuery.aggregation(_) -> QueryBench.Partitions) ++
      partitions.map(usual -> _) ++
      fills.map(BenchQuery.aggregation(BenchQuery.Million, _) -> QueryBench.Partitions)
    for ((query, partitions) <- grown) {
      val parameters = Seq(query.keys, partitions, query.fill).map(_.toString)
      println(Figures.row(parameters ++ figures(query, turns, partitions)))
    }
  }

  /** Nexmark queries, each after its answers have been compared. */
  def nexmark(queries: Seq[NexmarkQuery], turns: Int): Unit = {
    for (query <- queries)
      ChildJvm
        .run(NexmarkCheck, Seq(WholeQueries.argumentOf(query)))
        .foreach(line => println(line.mkString(", ")))
    table("Nexmark", queries, turns)
  }

  private def table(title: String, queries: Seq[WholeQuery], turns: Int): Unit = {
    val header =
      Seq("query, time of an epoch", "rows", "Cleancut", "HDFS-backed", "best RocksDB") :+
        "over the better"
    println(s"\n### $title\n")
    println(Figures.table(header, Nil))
    // Printed one by one, because all of them take long.
    queries.foreach(query => println(Figures.row(compared(query, turns))))
  }

  private def compared(query: WholeQuery, turns: Int): Seq[String] =
    Seq(query.name, query.rowsPerEpoch.toString) ++ figures(query, turns, QueryBench.Partitions)

  private def figures(query: WholeQuery, turns: Int, partitions: Int): Seq[String] = {
    val medians = measure(query, turns, partitions)
    val our = medians(Provider.Cleancut.name)
    val hdfs = medians.get(Provider.Hdfs.name)
    val rocks = Provider.RocksForQueries.map(p => medians(p.name)).min
    val others = Seq(hdfs, Some(rocks))
    Figures.time(our) +: others.map(_.fold("")(Figures.time)) :+
      Figures.ratio(our, others.flatten.min)
  }

  /** Restarts on a warm local disk, with a thousand rows each. */
  def starts(keys: Seq[Int], turns: Int): Unit = {
    println("\n### Restart on a warm local disk, until the first epoch has ended")
    keys.foreach { size =>
      val lines = ChildJvm.run(StartBench, Seq(size.toString, "1000", turns.toString))
      val all = lines.collect { case Array(subject, _, ns) => subject -> ns.toLong }
      val times = all.groupMap(_._1)(_._2)
      val bases = Seq(StartBench.Filter, StartBench.Stateless)
      val rows = all.map(_._1).distinct.map { subject =>
        val median = Figures.median(times(subject))
        Seq(subject, Figures.time(median), Figures.time(times(subject).min)) ++
          bases.map(base => Figures.ratio(Figures.median(times(base)), median))
      }
      val header = Seq(s"query, $size keys", "median", "minimum") ++ bases.map("over the " + _)
      println("\n" + Figures.table(header, rows))
    }
  }

  /**
   * Latency of a row in real-time mode.
   *
   * @param intervals
   *   intervals of the trigger in seconds: Spark ends a batch after each
   */
  def latency(queries: Seq[String], intervals: Seq[Int], turns: Int): Unit = {
    val rows = for (query <- queries; interval <- intervals) yield {
      val names = Seq("cleancut", "rocksdb")
      val samples = Seq.fill(turns)(names).flatten.flatMap { name =>
        ChildJvm
          .run(LatencyBench, Seq(name, query, interval.toString, latencyIntervals(interval)))
          .collect { case Array(figure, _, ns) => (figure, name) -> ns.toLong }
      }
      val medians = samples.groupMap(_._1)(_._2).map { case (f, all) => f -> Figures.median(all) }
      samples.map(_._1._1).distinct.map { figure =>
        val (ours, theirs) = (medians(figure -> "cleancut"), medians(figure -> "rocksdb"))
        Seq(figure, Figures.time(ours), Figures.time(theirs), Figures.ratio(ours, theirs))
      }
    }
    println("\n### Real-time mode, from source to sink\n")
    println(Figures.table(Seq("latency", "Cleancut", "RocksDB", "over RocksDB"), rows.flatten))
  }

  private def measure(query: WholeQuery, turns: Int, partitions: Int): Map[String, Long] =
    ChildJvm
      .run(
        QueryBench,
        Seq(WholeQueries.argumentOf(query), turns.toString, Epochs, partitions.toString)
      )
      .collect { case Array(provider, _, ns) => provider -> ns.toLong }
      .groupMap(_._1)(_._2)
      .map { case (provider, all) => provider -> Figures.median(all) }
}
