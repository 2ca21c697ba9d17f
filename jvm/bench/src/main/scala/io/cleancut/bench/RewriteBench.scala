package io.cleancut.bench

import java.nio.file.{Files, Path}

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.classic.{SparkSession => ClassicSession}
import org.apache.spark.sql.execution.streaming.state.{OfflineStateRepartitionRunner, StateStore}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.{OutputMode, Trigger}

import io.cleancut.CleancutOffline

/**
 * Times acts that write all state of a stopped query anew, each on a copy of the same checkpoint,
 * which a query on RocksDB has left: a count and a sum of each of `keys` keys. Of every result
 * Spark's reader counts the keys and adds up the sums. Prints one line
 * `act<TAB>turn<TAB>nanoseconds` for each.
 *
 * Arguments: keys, turns.
 */
object RewriteBench {

  /** In how many partitions the query has its state, by [[QueryBench.session]], and is to have. */
  final val Before = QueryBench.Partitions
  final val After = 6

  /**
   * @param partitions
   *   that it leaves
   */
  sealed abstract class Act(val name: String, val partitions: Int)
  case object Adopt extends Act("adopt", Before)
  case object RescaleRocks extends Act("rescale, RocksDB", After)
  case object RescaleCleancut extends Act("rescale, Cleancut", After)
  case object SparksOwn extends Act("Spark's repartition, RocksDB", After)
  def Acts: Seq[Act] = Seq(Adopt, RescaleRocks, RescaleCleancut, SparksOwn)

  // Keys whose numbers do not follow each other, as those of a query.
  private val Scatter = 2654435761L
  private val RowsOfFile = 100000L

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

  def run(turns: Int): Unit = {
    fill()
    copy(source, adopted)
    perform(Adopt, adopted)
    // Of the first turn the JVM has not compiled what it runs.
    for (turn <- -1 until turns; act <- Acts) {
      val at = place.resolve("copy")
      copy(if (act == RescaleCleancut) adopted else source, at)
      val start = System.nanoTime()
      perform(act, at)
      val ns = System.nanoTime() - start
      check(act.name, at, act.partitions)
      Directories.deleteBelow(at)
      if (turn >= 0) println(s"${act.name}\t$turn\t$ns")
    }
  }

  private def perform(act: Act, at: Path): Unit = {
    val location = at.toString
    act match {
      case Adopt =>
        CleancutOffline.adopt(configured, location, fileSink = "", apply = true): Unit
      case RescaleRocks | RescaleCleancut =>
        CleancutOffline.rescale(configured, location, fileSink = "", After, apply = true): Unit
      case SparksOwn =>
        new OfflineStateRepartitionRunner(session(rocks), location, After).run(): Unit
    }
  }

  /** Several epochs, so that a store has deltas and snapshots. */
  private def fill(): Unit = {
    val input = place.resolve("input").toString
    val files = Math.max((keys / RowsOfFile).toInt, 4)
    session(rocks)
      .range(0, keys, 1, files)
      .select((col("id") * Scatter).as("key"), (col("id") % 100).as("amount"))
      .write
      .parquet(input)
    session(rocks).readStream
      .schema("key LONG, amount LONG")
      .option("maxFilesPerTrigger", Math.max(files / 4, 1).toString)
      .parquet(input)
      .groupBy("key")
      .agg(count("*"), sum("amount"))
      .writeStream
      .format("noop")
      .outputMode(OutputMode.Update())
      .option("checkpointLocation", source.toString)
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
    // Its stores take memory from what follows.
    StateStore.stop()
    check("fill", source, Before)
  }

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
