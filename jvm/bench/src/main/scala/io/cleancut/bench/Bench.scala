package io.cleancut.bench

import io.cleancut.bench.capture.CompareCapture
import io.cleancut.bench.commits.{CompareScale, CompareWatching}
import io.cleancut.bench.operations.{CompareOperations, CompareRewrites}
import io.cleancut.bench.queries.{CompareQueries, CompareSequence, NexmarkEvents, NexmarkQuery}
import io.cleancut.bench.stores.CompareStores

/**
 * Runs all benchmarks, or the named ones: `stores`, `restarts`, `scans`, `growth`, `memory`,
 * `queries`, `latency`, `nexmark`, `scale`, `capture`, `rewrite`, `operations`, `grown`,
 * `watching`, `sequence`.
 *
 * Options, all with defaults: `keys=10000,100000,1000000` (sizes of the stores),
 * `managers=FileContextBased` (Spark's checkpoint file manager for local disks; also
 * `FileSystemBased`), `turns=5` (runs of each provider, interleaved), `query=join` (only queries
 * whose name contains the text), `before=/directory/of/classes` (another build of Cleancut to
 * compare single stores with).
 *
 * Options of `nexmark`: `query=4,8`, `events=100000` (per epoch), `rate=10000` (events per second
 * of event time), `inflight=100` (open auctions), `people=1000` (active people), `fill=5` (epochs
 * before the measurement). Options of `scale`: `partitions=25,1000,10000` (with four stores each),
 * `delay=0,50` (milliseconds per request), `chain=6,41` (deltas between bases), `format=1` (Spark's
 * checkpoint format), `inflight=0,1` (in-flight rows). Options of `operations`:
 * `partitions=24,2400,10000` (with four stores each). Options of `rewrite`: `operation=reference`
 * (only operations whose figure contains the text). Options of `grown`: `partitions=40`,
 * `fills=100` (epochs before the measurement). Options of `watching`: `partitions=4,40`; its turns
 * are pairs. Options of `sequence`: `events=1000000`, `keys=10,1000`. Options of `capture`:
 * [[CompareCapture.Options]].
 */
object Bench {
  private val Kinds = Seq(
    "stores",
    "restarts",
    "scans",
    "growth",
    "memory",
    "queries",
    "starts",
    "latency",
    "nexmark",
    "scale",
    "capture",
    "rewrite",
    "operations",
    "grown",
    "watching",
    "sequence"
  )

  def main(args: Array[String]): Unit = {
    val (given, named) = args.toSeq.partition(_.contains("="))
    val options = given.map(_.split("=", 2)).collect { case Array(k, v) => k -> v }.toMap
    def list(key: String, default: String) = options.getOrElse(key, default).split(",").toSeq
    def keys(default: String) = list("keys", default).map(_.toInt)
    lazy val stores = new CompareStores(options.get("before"))
    val turns = options.get("turns").map(_.toInt)
    named.diff(Kinds).foreach(n => throw new IllegalArgumentException(s"no '$n' among $Kinds"))
    (if (named.isEmpty) Kinds else named).foreach {
      case "stores" =>
        val managers = list("managers", "FileContextBased")
        stores.stores(keys("10000,100000,1000000"), managers, turns.getOrElse(2))
      case "restarts" => stores.restarts(keys("1000000,10000000"), turns.getOrElse(2))
      case "scans"    => stores.scans(keys("100000"), turns.getOrElse(2))
      case "growth"   => stores.growth(keys("20000"), turns.getOrElse(1))
      case "memory"   => stores.memory(keys("1000000"), turns.getOrElse(1))
      case "starts"   => CompareQueries.starts(keys("1000000"), turns.getOrElse(9))
      case "latency"  =>
        val queries = list("query", "dedup,aggregation,transformWithState")
        CompareQueries.latency(
          queries,
          list("intervals", "5,30,60").map(_.toInt),
          turns.getOrElse(3)
        )
      case "nexmark" =>
        def number(key: String, default: String) = options.getOrElse(key, default).toInt
        val events = NexmarkEvents(
          number("rate", "10000"),
          number("inflight", "100"),
          number("people", "1000")
        )
        val queries = list("query", NexmarkQuery.Numbers.mkString(",")).map { query =>
          NexmarkQuery(query.toInt, events, number("events", "100000"), number("fill", "5"))
        }
        CompareQueries.nexmark(queries, turns.getOrElse(5))
      case "scale" =>
        def numbers(key: String, default: String) = list(key, default).map(_.toInt)
        CompareScale.run(
          numbers("partitions", "25,1000,10000"),
          numbers("delay", "0,50"),
          numbers("chain", "6,41"),
          numbers("format", "1").head,
          numbers("inflight", "0,1").map(_ == 1)
        )
      case "capture" => CompareCapture.run(CompareCapture.Options.parse(options))
      case "rewrite" =>
        val operation = options.getOrElse("operation", "")
        CompareRewrites.run(keys("100000,1000000"), turns.getOrElse(3), operation)
      case "operations" =>
        CompareOperations.run(list("partitions", "24,2400,10000").map(_.toInt), turns.getOrElse(3))
      case "grown" =>
        CompareQueries.grown(
          keys("100000,1000000,10000000"),
          list("partitions", "40").map(_.toInt),
          list("fills", "100").map(_.toInt),
          turns.getOrElse(3)
        )
      case "watching" =>
        CompareWatching.run(list("partitions", "4,40").map(_.toInt), turns.getOrElse(60))
      case "sequence" =>
        val events = options.getOrElse("events", "1000000").toInt
        CompareSequence.run(events, keys("10,1000"), turns.getOrElse(3))
      case "queries" => CompareQueries.run(options.get("query").toSeq, turns.getOrElse(5))
    }
  }
}
