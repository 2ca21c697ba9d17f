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

import io.cleancut.bench.base.{Directories, Figures, Provider}
import io.cleancut.bench.queries.QueryBench

/**
 * Times offline operations that rewrite or reference the complete state of a stopped query, each on
 * a copy of the same checkpoint of a query on RocksDB: a count and a sum for each of `keys` keys.
 * Spark's state reader verifies the number of keys and the total of the sums of every result. If
 * cuts commit its epochs, the query then runs epochs with a hundredth of the keys each. Prints one
 * line `operation<TAB>turn<TAB>nanoseconds` for each operation, for the first of these epochs, for
 * the median of all, and for the longest from the third on.
 *
 * Arguments: keys, turns, and a text: only operations whose figure contains it.
 */
object RewriteBench {

  /** Partitions of the query before and after, by [[QueryBench.session]]. */
  final val Before = QueryBench.Partitions
  final val After = 6

  /** Partitions of a rescale to a multiple. */
  final val Multiple = 8

  /**
   * @param name
   *   name without the partitions
   * @param partitions
   *   partitions after the operation
   * @param hasCuts
   *   whether cuts commit the epochs of its query
   * @param before
   *   partitions before the operation
   */
  sealed abstract class Operation(
      val name: String,
      val partitions: Int,
      val hasCuts: Boolean = false,
      val before: Int = Before
  ) {

    /** Figure of the operation. */
    def figure: String = s"$name, $before to $partitions"

    /** Figures of the epochs after the operation. */
    def first: String = s"$figure: first epoch"
    def median: String = s"$figure: median epoch"
    def longest: String = s"$figure: longest epoch"
  }
  case object Adopt extends Operation("adopt", Before)
  case object RescaleRocks extends Operation("rescale, RocksDB", After)
  case object RescaleCleancut extends Operation("rescale, Cleancut", After)
  case object SparksOwn extends Operation("Spark's repartition, RocksDB", After)
  case object Rewritten extends Operation("rescale, cuts, rewritten", Multiple, hasCuts = true)
  final case class Referring(from: Int, to: Int)
      extends Operation("rescale, cuts, by reference", to, hasCuts = true, from)
  def Operations: Seq[Operation] = Seq(
    Adopt,
    RescaleRocks,
    RescaleCleancut,
    SparksOwn,
    Rewritten,
    Referring(Before, Multiple),
    Referring(Before, After),
    Referring(Multiple, 5)
  )

  /** The operations whose figure contains a text. */
  def named(text: String): Seq[Operation] = Operations.filter(_.figure.contains(text))

  // Keys that are not consecutive, as in real queries.
  private val Scatter = 2654435761L
  private val RowsOfFile = 100000L
  private val Many = 5000000L
  private val EpochsAfter = 40

  /** The state format that names versions by IDs. */
  private val FormatKey = "spark.sql.streaming.stateStore.checkpointFormatVersion"

  def main(args: Array[String]): Unit = {
    val spark = QueryBench.session()
    val directory = Files.createTempDirectory("cleancut-bench")
    try new RewriteBench(spark, directory, args(0).toLong, named(args(2))).run(args(1).toInt)
    finally {
      spark.stop()
      Directories.deleteBelow(directory)
    }
    System.exit(0)
  }
}

final class RewriteBench(
    spark: SparkSession,
    place: Path,
    keys: Long,
    operations: Seq[RewriteBench.Operation]
) {
  import RewriteBench._

  private val rocks = Provider.RocksForQueries.head
  private val source = place.resolve("rocks")
  private val adopted = place.resolve("adopted")
  private val withCuts = place.resolve("cuts")
  private val multiplied = place.resolve("multiplied")
  private val input = place.resolve("input").toString

  def run(turns: Int): Unit = {
    fill()
    copy(source, adopted)
    perform(Adopt, adopted)
    cut(adopted, withCuts)
    copy(withCuts, multiplied)
    perform(Rewritten, multiplied)
    // Input of the next epochs.
    for (_ <- 0 until EpochsAfter) write(Math.max(keys / 100, 1), files = 1)
    // In the first turn the JVM has not compiled the code yet, which matters little with many keys.
    for (
      turn <- (if (keys > Many) 0 else -1) until turns;
      (operation, number) <- operations.zipWithIndex
    ) {
      // A separate copy: background work of a query may still be running later.
      val at = place.resolve(s"copy-${turn + 1}-$number")
      copy(sourceOf(operation), at)
      val start = System.nanoTime()
      perform(operation, at)
      val ns = System.nanoTime() - start
      check(operation.name, at, operation.partitions)
      val epochs = if (operation.hasCuts) nextEpochsNs(at) else Nil
      Directories.deleteBelow(at)
      if (turn >= 0) {
        println(s"${operation.figure}\t$turn\t$ns")
        for (first <- epochs.headOption) {
          println(s"${operation.first}\t$turn\t$first")
          println(s"${operation.median}\t$turn\t${Figures.median(epochs)}")
          println(s"${operation.longest}\t$turn\t${epochs.drop(2).max}")
        }
      }
    }
  }

  private def sourceOf(operation: Operation): Path =
    if (operation.before == Multiple) multiplied
    else if (operation.hasCuts) withCuts
    else if (operation == RescaleCleancut) adopted
    else source

  private def perform(operation: Operation, at: Path): Unit = {
    val location = at.toString
    operation match {
      case Adopt =>
        OfflineOperation.ToCleancut.run(configured, location): Unit
      case RescaleRocks | RescaleCleancut | Rewritten =>
        val rescale = OfflineOperation.rescale(operation.partitions)
        rescale.copy(isRewrite = true).run(configured, location): Unit
      case Referring(_, partitions) =>
        OfflineOperation.rescale(partitions).run(configured, location): Unit
      case SparksOwn =>
        new OfflineStateRepartitionRunner(session(rocks), location, After).run(): Unit
    }
  }

  /** Converts the checkpoint to one whose epochs are committed by cuts. */
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

  /** Runs several epochs, so that a store has deltas and snapshots. */
  private def fill(): Unit = {
    val files = Math.max((keys / RowsOfFile).toInt, 4)
    write(keys, files)
    query(session(rocks), source, Math.max(files / 4, 1)).awaitTermination()
    // Its stores would take memory from later measurements.
    StateStore.stop()
    check("fill", source, Before)
  }

  /** Times of epochs; the first loads the state. */
  private def nextEpochsNs(at: Path): Seq[Long] = {
    StateStore.stop()
    val running = query(configured, at, filesOfEpoch = 1)
    running.awaitTermination()
    StateStore.stop()
    val times = running.recentProgress.filter(_.numInputRows > 0)
    times.map(_.durationMs.get("triggerExecution") * 1000000L).toSeq
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

  /** Verifies the state with Spark's state reader. */
  private def check(name: String, at: Path, partitions: Int): Unit = {
    val state = configured.read.format("statestore").load(at.toString)
    val actual = state
      .agg(
        count("*"),
        countDistinct("key.key"),
        sum("value.sum"),
        countDistinct("partition_id")
      )
      .head()
    val expected = Seq(keys, keys, (keys / 100) * 4950 + (keys % 100) * (keys % 100 - 1) / 2)
    require(actual.toSeq == expected :+ partitions.toLong, s"$name: $actual instead of $expected")
  }

  private def configured = session(Provider.Configured)

  private def session(provider: Provider): ClassicSession = {
    val session = spark.newSession()
    (provider.confs + (FormatKey -> "2")).foreach { case (key, value) =>
      session.conf.set(key, value)
    }
    session.asInstanceOf[ClassicSession]
  }

  private def copy(source: Path, to: Path): Unit = {
    val files = Files.walk(source)
    try files.forEach(file => Files.copy(file, to.resolve(source.relativize(file))): Unit)
    finally files.close()
  }
}
