package io.cleancut.bench.operations

import java.nio.file.{Files, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.state.{OfflineStateRepartitionRunner, StateStore}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  OfflineOperation,
  CloneTarget
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.OfflineSource
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery, Trigger}

import io.cleancut.bench.base.{Directories, Provider}
import io.cleancut.bench.queries.QueryBench

/**
 * Times acts that write all state of a stopped query anew, or refer to it, each on a copy of the
 * same checkpoint, which a query on RocksDB has left: a count and a sum of each of `keys` keys. Of
 * every result Spark's reader counts the keys and adds up the sums. Where cuts commit its epochs,
 * the query then runs an epoch that has a hundredth of the keys. Prints one line
 * `act<TAB>turn<TAB>nanoseconds` for each, and for each such epoch.
 *
 * Arguments: keys, turns.
 */
object RewriteBench {

  /** In how many partitions the query has its state, by [[QueryBench.session]], and is to have. */
  final val Before = QueryBench.Partitions
  final val After = 6

  /** What no row need be copied for. */
  final val Multiple = 8

  /**
   * @param partitions
   *   that it leaves
   * @param hasCuts
   *   whether cuts commit the epochs of its query
   */
  sealed abstract class Act(
      val name: String,
      val partitions: Int,
      val hasCuts: Boolean = false
  ) {

    /** Of the epoch that runs after it. */
    def next: String = s"$name: first epoch"
  }
  case object Adopt extends Act("adopt", Before)
  case object RescaleRocks extends Act("rescale, RocksDB", After)
  case object RescaleCleancut extends Act("rescale, Cleancut", After)
  case object SparksOwn extends Act("Spark's repartition, RocksDB", After)
  case object Rewritten extends Act("rescale, cuts, rewritten", Multiple, hasCuts = true)
  case object Referring extends Act("rescale, cuts, by reference", Multiple, hasCuts = true)
  def Acts: Seq[Act] =
    Seq(Adopt, RescaleRocks, RescaleCleancut, SparksOwn, Rewritten, Referring)

  // Keys whose numbers do not follow each other, as those of a query.
  private val Scatter = 2654435761L
  private val RowsOfFile = 100000L
  private val Many = 5000000L

  /** Of the two, the one that names versions by ids. */
  private val FormatKey = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  def main(args: Array[String]): Unit = {
    val spark = QueryBench.session()
    val directory = Files.createTempDirectory("cleancut-bench")
    try new RewriteBench(spark, directory, args(0).toLong).run(turns = args(1).toInt)
    finally {
      spark.stop()
      Directories.deleteBelow(directory)
    }
    System.exit(0)
  }
}

final class RewriteBench(spark: SparkSession, place: Path, keys: Long) {
  import RewriteBench._

  private val rocks = Provider.RocksForQueries.head
  private val source = place.resolve("rocks")
  private val adopted = place.resolve("adopted")
  private val withCuts = place.resolve("cuts")
  private val input = place.resolve("input").toString

  def run(turns: Int): Unit = {
    fill()
    copy(source, adopted)
    perform(Adopt, adopted)
    cut(adopted, withCuts)
    // For the epoch that comes next, wherever.
    write(Math.max(keys / 100, 1), files = 1)
    // Of the first turn the JVM has not compiled what it runs, which matters little to many keys.
    for (turn <- (if (keys > Many) 0 else -1) until turns; (act, number) <- Acts.zipWithIndex) {
      // Of its own: what a query has left to do in the background may come later.
      val at = place.resolve(s"copy-${turn + 1}-$number")
      copy(if (act.hasCuts) withCuts else if (act == RescaleCleancut) adopted else source, at)
      val start = System.nanoTime()
      perform(act, at)
      val ns = System.nanoTime() - start
      check(act.name, at, act.partitions)
      val next = Option.when(act.hasCuts)(nextEpochNs(at))
      Directories.deleteBelow(at)
      if (turn >= 0) {
        println(s"${act.name}\t$turn\t$ns")
        next.foreach(ns => println(s"${act.next}\t$turn\t$ns"))
      }
    }
  }

  private def perform(act: Act, at: Path): Unit = {
    val location = at.toString
    act match {
      case Adopt =>
        OfflineOperation.ToCleancut.run(configured, location): Unit
      case RescaleRocks | RescaleCleancut | Rewritten | Referring =>
        val rewrite = act != Referring
        val rescale = OfflineOperation.rescale(act.partitions).copy(isRewrite = rewrite)
        rescale.run(configured, location): Unit
      case SparksOwn =>
        new OfflineStateRepartitionRunner(session(rocks), location, After).run(): Unit
    }
  }

  /** The same state where cuts commit the epochs. */
  private def cut(from: Path, into: Path): Unit =
    OfflineOperation
      .copy(
        OfflineSource.Last,
        CloneTarget(into.toString, isOtherQuery = false, isWithCuts = Some(true))
      )
      .run(configured, from.toString): Unit

  private def write(keys: Long, files: Int): Unit = session(rocks)
    .range(0, keys, 1, files)
    .select((col("id") * Scatter).as("key"), (col("id") % 100).as("amount"))
    .write
    .mode("append")
    .parquet(input)

  /** Several epochs, so that a store has deltas and snapshots. */
  private def fill(): Unit = {
    val files = Math.max((keys / RowsOfFile).toInt, 4)
    write(keys, files)
    query(session(rocks), source, Math.max(files / 4, 1)).awaitTermination()
    // Its stores take memory from what follows.
    StateStore.stop()
    check("fill", source, Before)
  }

  /** An epoch of the query, with all that it loads. */
  private def nextEpochNs(at: Path): Long = {
    StateStore.stop()
    val running = query(configured, at, filesOfEpoch = 1)
    running.awaitTermination()
    StateStore.stop()
    running.recentProgress.head.durationMs.get("triggerExecution") * 1000000L
  }

  private def query(session: SparkSession, at: Path, filesOfEpoch: Int): StreamingQuery =
    session.readStream
      .schema("key LONG, amount LONG")
      .option("maxFilesPerTrigger", filesOfEpoch.toString)
      .parquet(input)
      .groupBy("key")
      .agg(count("*"), sum("amount"))
      .writeStream
      .format("noop")
      .outputMode(OutputMode.Update())
      .option("checkpointLocation", at.toString)
      .trigger(Trigger.AvailableNow())
      .start()

  /** What Spark's own reader finds, whoever keeps it. */
  private def check(name: String, at: Path, partitions: Int): Unit = {
    val state = configured.read.format("statestore").load(at.toString)
    val found = state
      .agg(
        count("*"),
        countDistinct("key.key"),
        sum("value.sum"),
        countDistinct("partition_id")
      )
      .head()
    val expected = Seq(keys, keys, (keys / 100) * 4950 + (keys % 100) * (keys % 100 - 1) / 2)
    require(found.toSeq == expected :+ partitions.toLong, s"$name: $found and not $expected")
  }

  private def configured = session(Provider.Configured)

  private def session(provider: Provider): ClassicSession = {
    val session = spark.newSession()
    (provider.confs + (FormatKey -> "2")).foreach { case (key, value) =>
      session.conf.set(key, value)
    }
    session.asInstanceOf[ClassicSession]
  }

  private def copy(of: Path, to: Path): Unit = {
    val files = Files.walk(of)
    try files.forEach(file => Files.copy(file, to.resolve(of.relativize(file))): Unit)
    finally files.close()
  }
}
