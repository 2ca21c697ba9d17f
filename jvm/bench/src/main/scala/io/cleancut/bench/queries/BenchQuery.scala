package io.cleancut.bench.queries

import java.sql.Timestamp

import org.apache.spark.sql.{DataFrame, Dataset, Encoders, SparkSession}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming._

/** An input row: `id` counts the rows from 0, `at` advances by ten seconds per epoch. */
final case class Tick(id: Long, key: Long, at: Timestamp, amount: Long)

/** A complete streaming query to measure. */
trait WholeQuery {
  def name: String
  def mode: OutputMode

  /** Input rows of each epoch. */
  def rowsPerEpoch: Int

  /** Epochs before the measurement, in which the state grows to its size. */
  def fill: Int

  /** Whether Spark's HDFS-backed provider can run it. */
  def onHdfs: Boolean
  def confs: Map[String, String]

  /** The query, which runs an epoch for each trigger. */
  def output(session: SparkSession): DataFrame
}

/**
 * A query over ticks.
 *
 * @param rowsPerEpoch
 *   input rows of each epoch
 * @param keys
 *   number of keys; epochs use them in a scattered order
 * @param repeat
 *   consecutive rows of a key before the next key
 * @param fill
 *   epochs before the measurement, in which the state grows to its size
 * @param onHdfs
 *   whether Spark's HDFS-backed provider can run it
 */
final case class BenchQuery(
    name: String,
    mode: OutputMode,
    rowsPerEpoch: Int,
    keys: Int,
    repeat: Int,
    fill: Int,
    onHdfs: Boolean,
    confs: Map[String, String] = Map.empty
)(val build: Dataset[Tick] => DataFrame)
    extends WholeQuery {
  import BenchQuery._

  override def output(session: SparkSession): DataFrame = build(input(session))

  /** The input, with one epoch for each trigger. */
  def input(session: SparkSession): Dataset[Tick] = session.readStream
    .format("rate-micro-batch")
    .option("rowsPerBatch", rowsPerEpoch)
    .option("numPartitions", 2)
    .load()
    .select(
      col("value").as("id"),
      expr(s"value div $repeat * $Scatter % $keys").as("key"),
      expr(s"timestamp_millis($StartMs + value * $EpochMs div $rowsPerEpoch)").as("at"),
      (col("value") % 100).as("amount")
    )
    .as(Encoders.product[Tick])
}

object BenchQuery {
  private val Append = OutputMode.Append()
  private val Update = OutputMode.Update()
  val Million: Int = 1000000
  private val KeysAnEpoch = 100000
  private val StartMs = 1700000000000L
  private val EpochMs = 10000L
  // A prime, so that consecutive keys are distributed over all partitions.
  private val Scatter = 7919

  // An hour: no key is evicted while the query is timed.
  private val LongDelay = "1 hour"

  val all: Seq[BenchQuery] = Seq(
    aggregation(Million),
    BenchQuery("window aggregation, append", Append, 100000, 2000, 1, fill = 3, onHdfs = true) {
      _.withWatermark("at", "10 seconds")
        .groupBy(window(col("at"), "10 seconds"), col("key"))
        .agg(count("*"), avg("amount"))
    },
    BenchQuery("session windows, append", Append, 50000, 50000, 5, fill = 3, onHdfs = true) {
      _.withWatermark("at", "10 seconds")
        .groupBy(session_window(col("at"), "2 seconds"), col("key"))
        .agg(count("*"), sum("amount"))
    },
    BenchQuery("dedup with TTL", Append, 100000, Million, 2, fill = 5, onHdfs = true) { ticks =>
      ticks.withWatermark("at", "30 seconds").dropDuplicatesWithinWatermark("key").toDF()
    },
    join(2),
    join(4),
    processor("value", new CountingProcessor),
    processor("map", new ByDigitProcessor),
    processor("timers", new TimedProcessor)
  )

  /**
   * @param fill
   *   epochs before the measurement; enough to contain all keys
   */
  def aggregation(keys: Int, fill: Int): BenchQuery = {
    val size = if (keys % Million == 0) s"${keys / Million} M" else s"${keys / 1000} k"
    val name = s"aggregation, $size keys"
    // The heap has no room for ten million objects in several versions.
    val onHdfs = keys <= Million
    BenchQuery(name, Update, KeysAnEpoch, keys, 1, fill, onHdfs)(
      _.groupBy("key").agg(count("*"), sum("amount"), max("at"))
    )
  }

  def aggregation(keys: Int): BenchQuery = aggregation(keys, Math.max(3, keys / KeysAnEpoch))

  def named(name: String): BenchQuery =
    all.find(_.name == name).getOrElse {
      throw new IllegalArgumentException(
        s"no query '$name' among ${all.map(_.name).mkString("; ")}"
      )
    }

  private def join(format: Int): BenchQuery = BenchQuery(
    s"inner join, format $format",
    Append,
    50000,
    100000,
    repeat = 2,
    fill = 3,
    onHdfs = format == 2,
    Map("spark.sql.streaming.join.stateFormatVersion" -> format.toString)
  ) { ticks =>
    val rows = ticks.withWatermark("at", "5 seconds")
    def side(bit: Int, prefix: String): DataFrame = rows
      .filter(col("id") % 2 === bit)
      .select("key", "at", "amount")
      .toDF(Seq("key", "at", "amount").map(prefix + _): _*)
    side(0, "l").join(
      side(1, "r"),
      expr("lkey = rkey and rat between lat - interval 5 seconds and lat + interval 5 seconds")
    )
  }

  private def processor(
      state: String,
      processor: => StatefulProcessor[Long, Tick, Long]
  ): BenchQuery = BenchQuery(
    s"transformWithState, $state, 1 M keys",
    Update,
    100000,
    Million,
    repeat = 1,
    fill = 10,
    onHdfs = false
  ) { ticks =>
    val session = ticks.sparkSession
    import session.implicits._
    ticks
      .withWatermark("at", LongDelay)
      .groupByKey(_.key)
      .transformWithState(processor, TimeMode.EventTime(), Update)
      .toDF()
  }
}
