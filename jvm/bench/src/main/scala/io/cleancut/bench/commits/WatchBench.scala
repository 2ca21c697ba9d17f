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
 * Cost of history records for each epoch: in Spark's UI, in its event log, and next to the cuts.
 * Two queries of one driver, one of them without history, run one epoch each in turn, and the first
 * one changes with each pair. Prints one line `pair<TAB>on<TAB>off` of nanoseconds for each pair.
 *
 * Arguments: pairs, partitions, rows per epoch, and whether the query with history starts first: of
 * two equal queries the first one takes some percent longer.
 */
object WatchBench {

  /**
   * Epochs before the measurement. The first file of a history, for which the driver loads classes,
   * is written in them.
   */
  private val WarmUp = 70

  def main(args: Array[String]): Unit = {
    val Array(pairs, partitions, rows) = args.take(3).map(_.toInt): @unchecked
    val historyFirst = args(3).toBoolean
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
      def start(hasHistory: Boolean) =
        new WatchedQuery(spark, directory.resolve(s"history-$hasHistory"), rows, hasHistory)
      val queries =
        Seq(historyFirst, !historyFirst).map(hasHistory => hasHistory -> start(hasHistory)).toMap
      val (recorded, unrecorded) = (queries(true), queries(false))
      for (pair <- -WarmUp until pairs) {
        val isFirst = pair % 2 == 0
        val first = (if (isFirst) recorded else unrecorded).epoch()
        val second = (if (isFirst) unrecorded else recorded).epoch()
        val (on, off) = if (isFirst) (first, second) else (second, first)
        if (pair >= 0) println(s"$pair\t$on\t$off")
      }
      Seq(recorded, unrecorded).foreach(_.close())
    } finally {
      spark.stop()
      Directories.deleteBelow(directory)
    }
    System.exit(0)
  }
}

final private class WatchedQuery(spark: SparkSession, place: Path, rows: Int, hasHistory: Boolean) {
  private val session: SparkSession = {
    val session = spark.newSession()
    Provider.Configured.confs.foreach { case (key, value) => session.conf.set(key, value) }
    session.conf.set("spark.sql.streaming.stateStore.cleancut.cuts", "true")
    session
  }
  private val input = MemoryStream(Encoders.scalaLong, session)
  private val location = s"file:$place"
  if (!hasHistory)
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
