package io.cleancut.s3a

import org.apache.spark.sql.streaming.OutputMode

import io.cleancut.bench.base.Figures
import io.cleancut.bench.queries.BenchQuery
import io.cleancut.testkit.FaultProxy

/**
 * The same queries with their checkpoint on the same S3 server, which is as far away as is asked
 * for: on Spark's RocksDB provider through S3A (`rocksdb`), on Cleancut (`cleancut`), and on
 * Cleancut with a sink that seals (`sealing`). Prints Markdown: what each epoch took, and the
 * medians side by side.
 *
 * Options, all with defaults: `store=rocksdb,cleancut,sealing`, `query=aggregation,join,ten`,
 * `partitions=50,200` (`ten` has 10 of its own), `delay=50` (milliseconds more for each request),
 * `slots=32` (tasks at a time), `warmups=2` and `epochs=5` (that count). With `restarts=1000000` it
 * is the first epoch of an aggregation over so many keys that is started again; `partitions=4`.
 */
object CheckpointBench {
  private val Rows = 1000
  private val Operators = 10

  /** Epochs of a day that the dollars are for: one a minute. */
  private val EpochsADay = 24 * 60

  /** Changes are small, so that what is asked of the server for them shows. */
  private val queries: Seq[BenchQuery] = Seq(
    small("aggregation", BenchQuery.named("aggregation, 1 M keys")),
    small("join", BenchQuery.named("inner join, format 2")),
    BenchQuery("ten", OutputMode.Append(), Rows, Rows, 1, fill = 0, onHdfs = true) { ticks =>
      // All want the same rows together, so that their stores are those of the same tasks.
      (0 until Operators).foldLeft(ticks.toDF())((rows, _) => rows.dropDuplicates("id"))
    }
  )

  private def small(name: String, query: BenchQuery): BenchQuery =
    query.copy(name = name, rowsPerEpoch = Rows, keys = Rows)(query.build)

  def main(args: Array[String]): Unit = {
    // Where the SDK of Cleancut finds them.
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
    // The threads of the proxy and of Spark would keep the process.
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
      delayMs = number("delay", 50)
    )
    require(size.warmUps > 0, "the first epoch has none before it to count from: warmups=1")
    val server = VersityServer.start()
    val proxy = new FaultProxy(server.port)
    try
      if (options.contains("restarts")) {
        val partitions = number("partitions", 4)
        restarts(proxy, number("restarts", 0), partitions, size.delayMs)
      } else
        for {
          query <- chosen("query", queries)(_.name)
          partitions <- if (query.name == "ten") Seq("10") else list("partitions", "50,200")
        } compare(
          proxy,
          query,
          chosen("store", Subject.All)(_.name),
          size.copy(partitions = partitions.toInt)
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
    println(s"\n### ${query.name}, ${size.partitions} partitions, ${size.delayMs} ms a request\n")
    println(Figures.table(Seq("store", "epoch") ++ Requests.Kinds ++ Totals, Nil))
    val found = subjects.map { subject =>
      val epochs = new CheckpointRun(proxy, query, subject, size).figures { of =>
        println(Figures.row(Seq(subject.name, of.epoch.toString) ++ cells(of)))
      }
      subject.name -> median(epochs)
    }
    println("\nMedians, and dollars a day of requests at an epoch a minute:\n")
    val prices = Prices.All.map(_.store)
    println(Figures.table(Seq("store") ++ Requests.Kinds ++ Totals ++ prices, Nil))
    found.foreach { case (subject, of) =>
      val dollars = Prices.All.map(price => f"$$${price.aDay(of.requests, EpochsADay)}%.2f")
      println(Figures.row(Seq(subject) ++ cells(of) ++ dollars))
    }
  }

  private def restarts(proxy: FaultProxy, keys: Int, partitions: Int, delayMs: Int): Unit = {
    println(s"\n### Restart of $keys keys in $partitions partitions, $delayMs ms a request\n")
    val columns = Seq("store", "rows", "first epoch", "loads of all stores", "requests")
    println(Figures.table(columns, Nil))
    for (((name, subject, confs), number) <- Restarted.zipWithIndex) {
      val of = Subject.named(subject)
      val run = new RestartRun(proxy, s"restart-$number", of, confs, keys, partitions, delayMs)
      run.figures(Seq(1, 1000)).foreach { found =>
        val load = found.loadMs.fold("")(ms => s"$ms ms")
        val cells = Seq(name, found.rows.toString, s"${found.batchMs} ms", load)
        println(Figures.row(cells :+ found.requests.total.toString))
      }
    }
  }

  // Bases that are on the local disk would be found there.
  private val NoneLocal = Map("spark.sql.streaming.stateStore.cleancut.localCacheSize" -> "0k")
  private val Restarted = Seq(
    ("RocksDB through S3A", "rocksdb", Map.empty[String, String]),
    ("Cleancut", "cleancut", NoneLocal),
    (
      "Cleancut, eager",
      "cleancut",
      NoneLocal + ("spark.sql.streaming.stateStore.cleancut.lazyRestore" -> "false")
    )
  )

  private val Totals = Seq("requests", "commit of a partition", "gate", "batch")

  private def cells(of: EpochFigures): Seq[String] =
    (Requests.Kinds.map(of.requests.of) :+ of.requests.total).map(_.toString) ++
      Seq(of.commitMs, of.gateMs, of.batchMs).map(ms => s"$ms ms")

  private def median(epochs: Seq[EpochFigures]): EpochFigures = {
    def of(figure: EpochFigures => Long) = Figures.median(epochs.map(figure))
    EpochFigures(
      of(_.epoch),
      Requests.median(epochs.map(_.requests)),
      of(_.commitMs),
      of(_.gateMs),
      of(_.batchMs)
    )
  }
}
