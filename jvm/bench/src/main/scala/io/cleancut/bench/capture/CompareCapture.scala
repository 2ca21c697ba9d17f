package io.cleancut.bench.capture

import io.cleancut.bench.base.{ChildJvm, Figures, Interval}

/**
 * Effect of capture on a query with a slow key, and its cost for a query without one, as Markdown.
 */
object CompareCapture {

  /**
   * @param slots
   *   concurrent tasks of all executors together
   * @param executors
   *   executors of the query with a slow key; 0 runs it in the driver
   * @param slowMs
   *   milliseconds per row of the slow key, one run for each value
   * @param rowMs
   *   milliseconds per row of the other keys
   * @param costRows
   *   rows per epoch of the query without a slow key
   * @param costKeys
   *   number of keys of these rows
   * @param pairs
   *   pairs of epochs, of all JVMs together
   * @param forks
   *   number of JVMs, one after the other
   * @param parts
   *   parts of the benchmark to run
   */
  final case class Options(
      partitions: Int = 20,
      slots: Int = 4,
      executors: Int = 0,
      rows: Int = 800,
      epochs: Int = 20,
      slowMs: Seq[Int] = Seq(5),
      rowMs: Int = 20,
      timeout: String = "1s",
      costRows: Int = 50000,
      costKeys: Int = 20000,
      pairs: Int = 30,
      forks: Int = 3,
      parts: Set[String] = Parts
  )

  private val SlowKey = "slowKey"
  private val Cost = "cost"
  private val Parts = Set(SlowKey, Cost)

  object Options {

    /** Parses `key=value` pairs; missing keys have their defaults. */
    def parse(named: Map[String, String]): Options = {
      val usual = Options()
      def number(key: String, default: Int) = named.get(key).fold(default)(_.toInt)
      val parts = named.get("part").fold(usual.parts)(Set(_))
      require(parts.subsetOf(Parts), s"no part ${parts.head}; there are: ${Parts.mkString(", ")}")
      Options(
        number("partitions", usual.partitions),
        number("slots", usual.slots),
        number("executors", usual.executors),
        number("rows", usual.rows),
        number("epochs", usual.epochs),
        named.get("slow").fold(usual.slowMs)(_.split(",").map(_.toInt).toSeq),
        number("row", usual.rowMs),
        named.getOrElse("timeout", usual.timeout),
        number("costRows", usual.costRows),
        number("costKeys", usual.costKeys),
        number("pairs", usual.pairs),
        number("forks", usual.forks),
        parts
      )
    }
  }

  def run(options: Options): Unit = {
    if (options.parts(SlowKey)) {
      for (slowMs <- options.slowMs) {
        println(s"\n### A slow key, $slowMs ms a row\n")
        println(slowKey(options, slowMs))
      }
    }
    if (options.parts(Cost)) {
      println("\n### The cost of capture to a query without one\n")
      println(cost(options))
    }
  }

  private def slowKey(o: Options, slowMs: Int): String = {
    val master =
      if (o.executors == 0) s"local[${o.slots}]"
      else s"local-cluster[${o.executors},${o.slots / o.executors},1024]"
    val sizes = Seq(o.partitions, o.rows, o.epochs, slowMs, o.rowMs).map(_.toString)
    val lines =
      ChildJvm.run(SlowKeyBench, Seq(master, o.timeout) ++ sizes).collect {
        case Array(subject, figure, number) => (subject, figure, number.toLong)
      }
    val figures = lines.groupMap(line => (line._1, line._2))(_._3)
    val base = Figures.median(figures((SlowKeyBench.WithoutSlowKey, "epoch")))
    val rows = lines.map(_._1).distinct.map { subject =>
      val epochs = figures((subject, "epoch"))
      val p50 = Figures.median(epochs)
      Seq(
        subject,
        Figures.time(p50),
        Figures.time(Figures.percentile(epochs, 90)),
        Figures.time(epochs.max),
        Figures.ratio(base, p50),
        figures((subject, "in-flight rows")).count(_ > 0).toString,
        figures((subject, "in-flight rows")).max.toString,
        Figures.time(figures((subject, "capture")).max),
        Figures.time(figures((subject, "drain")).sum)
      )
    }
    val header = Seq("mode", "epoch, p50", "p90", "max", "over one without the slow key") ++
      Seq(
        "epochs with in-flight rows",
        "max rows",
        "barrier to capture, max",
        "until all are processed"
      )
    Figures.table(header, rows)
  }

  private def cost(o: Options): String = {
    val sizes = Seq(o.partitions, o.slots, o.costRows, o.costKeys, o.pairs / o.forks)
    val lines = (1 to o.forks).flatMap { seed =>
      val arguments = (sizes :+ seed).map(_.toString)
      ChildJvm.run(CaptureCostBench, arguments, AllOfTheHeap)
    }
    val samples = lines
      .collect { case Array(subject, _, number) => subject -> number.toLong }
      .groupMap(_._1)(_._2)
    def more(subject: String, than: String): String = {
      val pairs = samples(subject).zip(samples(than))
      val Interval(low, estimate, high) =
        Figures.interval(pairs.map { case (subjectNs, other) => subjectNs.toDouble / other })
      f"${percent(estimate)}%.1f %% (${percent(low)}%.1f to ${percent(high)}%.1f)"
    }
    val aligned = CaptureSubject.Aligned
    val rows = CaptureSubject.modes.map { mode =>
      Seq(
        mode,
        Figures.time(Figures.median(samples(mode))),
        more(mode, CaptureCostBench.Off),
        if (mode == aligned) "" else more(mode, aligned),
        samples(s"$mode, in-flight rows").max.toString
      )
    }
    val header = Seq("mode", "CPU time of an epoch", "more than without capture") ++
      Seq(s"more than $aligned", "in-flight rows")
    Figures.table(header, rows)
  }

  // Rows before the measurement, so that no task pays for new pages.
  private val AllOfTheHeap = Seq("-Xms6g", "-XX:+AlwaysPreTouch")

  private def percent(ratio: Double): Double = (ratio - 1) * 100
}
