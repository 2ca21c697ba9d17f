package io.cleancut.s3a

import org.apache.spark.sql.streaming.OutputMode

import io.cleancut.bench.base.Figures
import io.cleancut.bench.queries.BenchQuery
import io.cleancut.testkit.FaultProxy

/**
 * The same queries with their checkpoint on the same S3 server, with a configured latency: on
 * Spark's RocksDB provider through S3A (`rocksdb`), on Cleancut (`cleancut`), on Cleancut with a
 * sealing sink (`sealing`), and with pipelined cuts too (`pipelined`). Prints Markdown: the figures
 * of each epoch, and the medians side by side.
 *
 * Options, all with defaults: `store=rocksdb,cleancut,sealing,pipelined`,
 * `query=aggregation,join,ten`, `partitions=50,200` (`ten` always has 10), `delay=50` (additional
 * milliseconds per request; `delay=0,50` measures both), `slots=32` (concurrent tasks), `warmups=2`
 * and `epochs=5` (measured epochs). With `restarts=1000000` it measures the first epoch after a
 * restart of an aggregation over this number of keys, and the longest serial chain of requests;
 * `partitions=4` and `store=rocksdb,cleancut,eager`. `trace=true` also prints each request with its
 * begin and end in milliseconds, and marks those of the chain.
 */
object CheckpointBench {
  private val Rows = 1000
  private val Operators = 10

  /** Epochs per day for the costs in dollars: one a minute. */
  private val EpochsADay = 24 * 60

  /** Changes are small, so that requests dominate. */
  private val queries: Seq[BenchQuery] = Seq(
    small("aggregation", BenchQuery.named("aggregation, 1 M keys")),
    small("join", BenchQuery.named("inner join, format 2")),
    BenchQuery("ten", OutputMode.Append(), Rows, Rows, 1, fill = 0, onHdfs = true) { ticks =>
      // All operators have the same partitions and rows, so that each task has all their stores.
      (0 until Operators).foldLeft(ticks.toDF())((rows, _) => rows.dropDuplicates("id"))
    }
  )

  private def small(name: String, query: BenchQuery): BenchQuery =
    query.copy(name = name, rowsPerEpoch = Rows, keys = Rows)(query.build)

  def main(args: Array[String]): Unit = {
    // Cleancut's SDK reads the credentials from here.
    System.setProperty("aws.accessKeyId", VersityServer.AccessKey)
    System.setProperty("aws.secretAccessKey", VersityServer.SecretKey)
    val status =
      try {
        run(args.map(_.split("=", 2)).collect { case Array(key, value) => key -> value }.toMap)
        0
      } catch {
        case e: Throwable =>
          e.printStackTrace()
          1
      }
    // Threads of the proxy and of Spark would keep the process alive.
    System.exit(status)
  }

  private def run(options: Map[String, String]): Unit = {
    def list(key: String, default: String) = options.getOrElse(key, default).split(",").toSeq
    def number(key: String, default: Int) = options.get(key).fold(default)(_.toInt)
    def chosen[A](key: String, all: Seq[A])(name: A => String) = {
      val names = list(key, all.map(name).mkString(","))
      names.diff(all.map(name)).foreach(n => throw new IllegalArgumentException(s"no $key '$n'"))
      all.filter(one => names.contains(name(one)))
    }
    val size = RunSize(
      partitions = 0,
      slots = number("slots", 32),
      warmUps = number("warmups", 2),
      epochs = number("epochs", 5),
      delayMs = 0
    )
    require(size.warmUps > 0, "the first epoch has none before it to count from: warmups=1")
    val server = VersityServer.start()
    val proxy = new FaultProxy(server.port)
    try
      if (options.contains("restarts")) {
        val isTraced = options.get("trace").contains("true")
        val runs = chosen("store", Restarted)(_.name).map { one =>
          val keys = number("restarts", 0)
          val partitions = number("partitions", 4)
          one -> new RestartRun(proxy, one, keys, partitions, number("delay", 50))
        }
        val delayMs = number("delay", 50)
        println(s"\n### Restart of ${number("restarts", 0)} keys, $delayMs ms per request\n")
        restarts(runs, isTraced)
      } else
        for {
          query <- chosen("query", queries)(_.name)
          partitions <- if (query.name == "ten") Seq("10") else list("partitions", "50,200")
          delayMs <- list("delay", "50")
        } compare(
          proxy,
          query,
          chosen("store", Subject.All)(_.name),
          size.copy(partitions = partitions.toInt, delayMs = delayMs.toInt)
        )
    finally {
      proxy.close()
      server.close()
    }
  }

  private def compare(
      proxy: FaultProxy,
      query: BenchQuery,
      subjects: Seq[Subject],
      size: RunSize
  ): Unit = {
    println(s"\n### ${query.name}, ${size.partitions} partitions, ${size.delayMs} ms per request\n")
    println(Figures.table(Seq("store", "epoch") ++ Requests.Kinds ++ Totals, Nil))
    val results = subjects.map { subject =>
      val epochs = new CheckpointRun(proxy, query, subject, size).figures { figures =>
        println(Figures.row(Seq(subject.name, figures.epoch.toString) ++ cells(figures)))
      }
      subject.name -> median(epochs)
    }
    println("\nMedians, and dollars a day of requests at an epoch a minute:\n")
    val prices = Prices.All.map(_.store)
    println(Figures.table(Seq("store") ++ Requests.Kinds ++ Totals ++ prices, Nil))
    results.foreach { case (subject, figures) =>
      val dollars = Prices.All.map(price => f"$$${price.aDay(figures.requests, EpochsADay)}%.2f")
      println(Figures.row(Seq(subject) ++ cells(figures) ++ dollars))
    }
  }

  private def restarts(runs: Seq[(RestartSubject, RestartRun)], isTraced: Boolean): Unit = {
    println(Figures.table(RestartColumns, Nil))
    for ((subject, run) <- runs; figures <- run.figures(Seq(1, 1000))) {
      val load = figures.loadMs.fold("")(ms => s"$ms ms")
      val times = Seq(s"${figures.batchMs} ms", s"${figures.startMs} ms", load)
      val counts = Seq(figures.requests.total, figures.toTask, figures.toEnd).map(_.toString)
      println(Figures.row(Seq(subject.title, figures.rows.toString) ++ times ++ counts))
      if (isTraced) figures.trace.foreach(println)
    }
  }

  private val RestartColumns = Seq(
    "store",
    "rows",
    "first epoch",
    "start to end of the epoch",
    "loads of all stores",
    "requests",
    "serial to the first task",
    "serial to the end"
  )

  // Settings without a local cache of bases.
  private val NoneLocal = Map("spark.sql.streaming.stateStore.cleancut.localCacheSize" -> "0k")
  private val Eager = Map("spark.sql.streaming.stateStore.cleancut.lazyRestore" -> "false")
  private val Restarted = Seq(
    RestartSubject("rocksdb", "RocksDB through S3A", Subject.named("rocksdb"), Map.empty),
    RestartSubject("cleancut", "Cleancut", Subject.named("cleancut"), NoneLocal),
    RestartSubject("eager", "Cleancut, eager", Subject.named("cleancut"), NoneLocal ++ Eager)
  )

  private val Totals = Seq("requests", "commit of a partition", "commit log", "batch")

  private def cells(epoch: EpochFigures): Seq[String] =
    (Requests.Kinds.map(epoch.requests.of) :+ epoch.requests.total).map(_.toString) ++
      Seq(epoch.commitMs, epoch.gateMs, epoch.batchMs).map(ms => s"$ms ms")

  private def median(epochs: Seq[EpochFigures]): EpochFigures = {
    def medianOf(figure: EpochFigures => Long) = Figures.median(epochs.map(figure))
    EpochFigures(
      medianOf(_.epoch),
      Requests.median(epochs.map(_.requests)),
      medianOf(_.commitMs),
      medianOf(_.gateMs),
      medianOf(_.batchMs)
    )
  }
}
