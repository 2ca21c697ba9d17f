package io.cleancut.bench.stores

import scala.collection.mutable

import io.cleancut.bench.base.{ChildJvm, Figures, Provider}

/**
 * Runs the benchmarks of a single store for Cleancut and for Spark's providers in turn, each in a
 * separate JVM, and prints medians and ratios as Markdown. A ratio above 1 is the factor by which
 * Cleancut is faster.
 *
 * @param before
 *   classes of another build to compare with
 */
final class CompareStores(before: Option[String]) {
  private val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val FileManagers = "org.apache.spark.sql.execution.streaming.checkpointing"
  private val Rounds = "7"
  private val GrowthMarks = "10,50,200,400"

  private val HourOfEpochs = "360"
  // A record of two rows of 24 bytes, and its index entry.
  private val StateBytesPerKey = 100

  private type Samples = Map[Provider, mutable.LinkedHashMap[String, Seq[Long]]]

  /** Operations, commits and loads at each number of keys, with each of Spark's file managers. */
  def stores(keys: Seq[Int], managers: Seq[String], turns: Int): Unit =
    for (manager <- managers; count <- keys)
      show(s"$count keys, ${manager}CheckpointFileManager", turns, everyProvider) { provider =>
        val hadoop = s"hadoop:$FileManagerKey=$FileManagers.${manager}CheckpointFileManager"
        run(StoreBench, provider, Seq(count.toString, roundsOf(count)), Seq(hadoop))
      }

  /** Time that a new executor waits for a store. */
  def restarts(keys: Seq[Int], turns: Int): Unit =
    for (count <- keys)
      show(s"$count keys, opened by a fresh executor", turns, everyProvider) { provider =>
        // Creates a snapshot immediately.
        val confs = Seq("spark.sql.streaming.stateStore.minDeltasForSnapshot=1")
        run(RestartBench, provider, Seq(count.toString, Rounds), confs)
      }

  /** Scans over ordered keys; the HDFS-backed provider does not support range scans. */
  def scans(keys: Seq[Int], turns: Int): Unit =
    for (count <- keys; (kind, providers) <- scanned)
      show(s"$count keys, $kind scan", turns, providers) { provider =>
        run(ScanBench, provider, Seq(count.toString, Rounds, kind), Nil)
      }

  /** Figures that must not grow while a query runs. */
  def growth(keys: Seq[Int], turns: Int): Unit =
    for (count <- keys)
      show(s"$count keys, 10 % of them changed in each epoch", turns, everyProvider) { provider =>
        run(GrowthBench, provider, Seq(count.toString, GrowthMarks), Nil)
      }

  /** State of four times the provider's memory limit, for the epochs of an hour. */
  def memory(keys: Seq[Int], turns: Int): Unit =
    for (count <- keys) {
      val boundMb = Math.max(1L, count.toLong * StateBytesPerKey / 4 >> 20)
      val bounds = Seq(
        "spark.sql.streaming.stateStore.cleancut.maxOffHeapMemory" -> s"${boundMb}m",
        "spark.sql.streaming.stateStore.rocksdb.boundedMemoryUsage" -> "true",
        "spark.sql.streaming.stateStore.rocksdb.maxMemoryUsageMB" -> boundMb.toString
      ).map { case (key, value) => s"$key=$value" }
      val providers = Provider.Cleancut +: Provider.RocksForQueries
      show(s"$count keys, $boundMb MB of memory", turns, providers) { provider =>
        run(MemoryBench, provider, Seq(count.toString, HourOfEpochs), bounds)
      }
    }

  /**
   * Rounds of small stores are short compared with a garbage collection or another thread of the
   * JVM, so a median requires more of them.
   */
  private def roundsOf(keys: Int): String = if (keys > 100000) Rounds else "31"

  private val earlier = before.map(Provider.before)

  private def everyProvider: Seq[Provider] =
    Provider.Cleancut +: (earlier.toSeq ++ (Provider.Hdfs +: Provider.Rocks))

  private def scanned: Seq[(String, Seq[Provider])] =
    Seq("prefix" -> everyProvider, "range" -> everyProvider.filter(_ != Provider.Hdfs))

  private def run(
      bench: AnyRef,
      provider: Provider,
      arguments: Seq[String],
      confs: Seq[String]
  ): Seq[(String, Long)] = {
    val settings = provider.settings.map { case (key, value) => s"$key=$value" }
    ChildJvm
      .run(
        bench,
        (provider.className +: arguments) ++ confs ++ settings,
        classes = provider.classes
      )
      .collect { case Array(figure, _, number) => figure -> number.toLong }
  }

  private def show(title: String, turns: Int, providers: Seq[Provider])(
      measure: Provider => Seq[(String, Long)]
  ): Unit = {
    val samples: Samples =
      providers.map(_ -> mutable.LinkedHashMap.empty[String, Seq[Long]]).toMap
    for (_ <- 0 until turns; provider <- providers; (figure, number) <- measure(provider))
      samples(provider)(figure) = samples(provider).getOrElse(figure, Nil) :+ number
    println(s"\n### $title\n")
    println(table(samples))
  }

  private def table(samples: Samples): String = {
    val header = Seq("figure", "Cleancut") ++ earlier.map(_.name) ++
      Seq("HDFS-backed", "best RocksDB") ++ earlier.map(e => s"over ${e.name}") ++
      Seq("over HDFS", "over RocksDB")
    val rows = samples(Provider.Cleancut).toSeq.map { case (figure, ours) =>
      val our = Figures.median(ours)
      val hdfs = median(samples, Provider.Hdfs, figure)
      val rocks = Provider.Rocks.flatMap(median(samples, _, figure)).minOption
      val others = earlier.toSeq.map(median(samples, _, figure)) ++ Seq(hdfs, rocks)
      val figures = (Some(our) +: others).map(_.fold("")(unit(figure, _)))
      Seq(figure.stripSuffix(Thousandths)) ++ figures ++
        others.map(_.fold("")(Figures.ratio(our, _)))
    }
    Figures.table(header, rows)
  }

  private def median(samples: Samples, provider: Provider, figure: String): Option[Long] =
    samples.get(provider).flatMap(_.get(figure)).map(Figures.median)

  // Records are integers.
  private val Thousandths = ", 1/1000"

  private def unit(figure: String, number: Long): String =
    if (figure.endsWith(Thousandths)) f"${number / 1000.0}%.2f"
    else if (figure.startsWith("bytes")) f"${number / 1e6}%.2f MB"
    else Figures.time(number)
}
