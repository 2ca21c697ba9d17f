package io.cleancut.bench.commits

import java.nio.file.{Files, Path}

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.functions.{col, explode, sequence}
import org.apache.spark.sql.streaming.{OutputMode, StreamingQuery}
import org.apache.spark.sql.{Encoders, SparkSession}

import io.cleancut.base.Clock
import io.cleancut.bench.base.{Directories, Provider}
import io.cleancut.coordinator.CutsRuntime

/**
 * What it costs that epochs are told of: in Spark's pages, its event log and beside the cuts. Two
 * queries of one driver, of which nobody tells of the one, have an epoch each in turn, and the one
 * that begins changes with each pair. Prints one line `pair<TAB>on<TAB>off` of nanoseconds for
 * each.
 *
 * Arguments: pairs, partitions, rows of an epoch, and whether the query that is told of is the
 * first that is started: of two that are alike the first one takes some hundredths longer.
 */
object WatchBench {

  /** The first file of a history, which a driver loads classes for, is written amid these. */
  private val WarmUp = 70

  def main(args: Array[String]): Unit = {
    val Array(pairs, partitions, rows) = args.take(3).map(_.toInt): @unchecked
    val toldFirst = args(3).toBoolean
    val directory = Files.createTempDirectory("cleancut-bench")
    val events = Files.createDirectory(directory.resolve("events"))
    val spark = SparkSession
      .builder()
      .master("local[2]")
      .config("spark.ui.enabled", "true")
      .config("spark.ui.port", "0")
      .config("spark.eventLog.enabled", "true")
      .config("spark.eventLog.dir", events.toUri.toString)
      .config("spark.sql.shuffle.partitions", partitions.toString)
      .config("spark.sql.extensions", "io.cleancut.CleancutExtensions")
      .getOrCreate()
    try {
      def start(isTold: Boolean) =
        new WatchedQuery(spark, directory.resolve(s"told-$isTold"), rows, isTold)
      val queries = Seq(toldFirst, !toldFirst).map(isTold => isTold -> start(isTold)).toMap
      val (told, untold) = (queries(true), queries(false))
      for (pair <- -WarmUp until pairs) {
        val isFirst = pair % 2 == 0
        val first = (if (isFirst) told else untold).epoch()
        val second = (if (isFirst) untold else told).epoch()
        val (on, off) = if (isFirst) (first, second) else (second, first)
        if (pair >= 0) println(s"$pair\t$on\t$off")
      }
      Seq(told, untold).foreach(_.close())
    } finally {
      spark.stop()
      Directories.deleteBelow(directory)
    }
    System.exit(0)
  }
}

final private class WatchedQuery(spark: SparkSession, place: Path, rows: Int, isTold: Boolean) {
  private val session = {
    val own = spark.newSession()
    Provider.Configured.confs.foreach { case (key, value) => own.conf.set(key, value) }
    own.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "true")
    own
  }
  private val input = MemoryStream(Encoders.scalaLong, session)
  private val location = s"file:$place"
  if (!isTold)
    DriverCuts.runOn(location)(store => CutsRuntime.onThreads(store, Clock.System))
  private var epochs = 0L

  private val query: StreamingQuery = input
    .toDF()
    .select(explode(sequence(col("value"), col("value") + (rows - 1))).as("value"))
    .groupBy((col("value") % (rows * 10L)).as("key"))
    .count()
    .writeStream
    .outputMode(OutputMode.Update())
    .format("noop")
    .option("checkpointLocation", location)
    .start()

  /** Nanoseconds of an epoch. */
  def epoch(): Long = {
    val start = System.nanoTime()
    input.addData(Seq(epochs * rows))
    query.processAllAvailable()
    epochs += 1
    System.nanoTime() - start
  }

  def close(): Unit = query.stop()
}
