package io.cleancut.bench.queries

import java.nio.file.Files
import java.util.concurrent.{TimeUnit, TimeoutException}

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.{
  StreamingQuery,
  StreamingQueryException,
  StreamingQueryProgress
}

import io.cleancut.bench.base.{Directories, Provider}

/**
 * Times one complete query on each provider in turn, in one JVM: after the state has been filled,
 * each turn restarts the query and measures all epochs except the first. Prints one line
 * `provider<TAB>turn<TAB>nanoseconds` for each: the mean time of an epoch. Spark's durations of the
 * phases go to standard error.
 *
 * Arguments: name of the query, turns, measured epochs, partitions, and, to profile one provider, a
 * prefix of its name.
 */
object QueryBench {
  // A hundred epochs that fill RocksDB with ten million keys take more than ten minutes.
  private val PatienceNs = TimeUnit.MINUTES.toNanos(60)

  def main(args: Array[String]): Unit = {
    val query = WholeQueries.named(args(0))
    val bench = new QueryBench(query, epochs = args(2).toInt, partitions = args(3).toInt)
    try {
      val wanted = providers(query).filter(p => args.drop(4).forall(p.name.startsWith))
      val runs = wanted.map(bench.filled)
      for (turn <- 0 until args(1).toInt; run <- runs)
        println(s"${run.provider.name}\t$turn\t${run.time()}")
      runs.foreach(_.close())
    } finally bench.close()
    System.exit(0)
  }

  def providers(query: WholeQuery): Seq[Provider] =
    Seq(Provider.Configured) ++ Option.when(query.onHdfs)(Provider.Hdfs) ++ Provider.RocksForQueries

  /** Default number of state partitions. */
  final val Partitions = 4

  def session(partitions: Int = Partitions): SparkSession = SparkSession
    .builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", partitions.toString)
    .config("spark.sql.adaptive.enabled", "false")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.streaming.stateStore.maintenanceInterval", "10s")
    // Epochs that fill the state are counted in recent progresses, of which Spark keeps a hundred
    // by default.
    .config("spark.sql.streaming.numRecentProgressUpdates", "10000")
    .config("spark.sql.extensions", "io.cleancut.CleancutExtensions")
    .getOrCreate()
}

final class QueryBench(query: WholeQuery, epochs: Int, partitions: Int) {
  import QueryBench._

  private val spark = QueryBench.session(partitions)

  def close(): Unit = spark.stop()

  /** A run of the query whose state has its full size. */
  def filled(provider: Provider): Run = {
    val run = new Run(provider)
    run.epochs(query.fill)
    run
  }

  final class Run(val provider: Provider) {
    private val directory = Files.createTempDirectory("cleancut-bench")
    private val session = spark.newSession()
    (query.confs ++ provider.confs).foreach { case (key, value) => session.conf.set(key, value) }

    /**
     * Mean nanoseconds of an epoch, without the first one after a restart, which loads the state.
     */
    def time(): Long = {
      val measured = epochs(1 + QueryBench.this.epochs).tail
      val phases = measured.flatMap(_.durationMs.asScala.toSeq).groupMap(_._1)(_._2.longValue)
      val means = phases.toSeq.sortBy(_._1).map { case (p, ms) => s"$p ${ms.sum / ms.size}" }
      System.err.println(s"${provider.name}: ${means.mkString(", ")}")
      System.err.println(measured.last.stateOperators.map(_.json).mkString(" "))
      val counted = measured.map(_.durationMs.get("triggerExecution"))
      TimeUnit.MILLISECONDS.toNanos(counted.map(_.toLong).sum) / counted.size
    }

    /** Runs the query for a number of epochs with rows. */
    def epochs(wanted: Int): Seq[StreamingQueryProgress] = {
      val running = start()
      val until = System.nanoTime() + PatienceNs
      def full = running.recentProgress.filter(_.numInputRows > 0).sortBy(_.batchId).toSeq
      while (full.size < wanted) {
        running.exception.foreach(throw _: StreamingQueryException)
        if (System.nanoTime() > until)
          throw new TimeoutException(s"${query.name} makes no progress")
        Thread.sleep(20)
      }
      val result = full.take(wanted)
      running.stop()
      // Its stores would take memory from the next run.
      StateStore.stop()
      result
    }

    private def start(): StreamingQuery = query
      .output(session)
      .writeStream
      .format("noop")
      .outputMode(query.mode)
      .option("checkpointLocation", directory.toString)
      .start()

    def close(): Unit = Directories.deleteBelow(directory)
  }
}
