package io.cleancut.e2e

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions.{array, expr, struct}

/** An input row of a randomized query; `left` selects the side of a join. */
final case class Reading(key: Option[Long], ts: Timestamp, value: Long, left: Boolean)

object Reading {

  /** Created once, because its reflection takes longer than an epoch. */
  implicit val encoder: Encoder[Reading] = Encoders.product[Reading]
}

/**
 * The distribution of the input of a query.
 *
 * @param hot
 *   share of rows that have the same key
 * @param delayed
 *   share of delayed rows, whose delay is less than `maxDelayMs`
 */
final case class Inputs(
    keys: Int,
    hot: Double,
    nulls: Double,
    delayed: Double,
    maxDelayMs: Int,
    left: Double
) {
  import Inputs._

  def rows(random: Random, step: Int, count: Int): Seq[Reading] = Seq.fill(count) {
    val delayMs = if (random.nextDouble() < delayed) random.nextInt(maxDelayMs) else 0
    val atMs = StartMs + step * StepMs + random.nextInt(StepMs) - delayMs
    Reading(
      if (random.nextDouble() < nulls) None else Some(key(random)),
      new Timestamp(atMs),
      random.nextInt(100).toLong,
      random.nextDouble() < left
    )
  }

  private def key(random: Random): Long =
    if (random.nextDouble() < hot) 0L else random.nextInt(keys).toLong
}

object Inputs {
  private val StartMs = 1700000000000L
  private val StepMs = 10000

  def draw(random: Random, maxDelayMs: Int): Inputs = Inputs(
    keys = RandomQuery.oneOf(random, 1, 5, 30, 200),
    hot = RandomQuery.oneOf(random, 0.0, 0.0, 0.5, 0.9),
    nulls = RandomQuery.oneOf(random, 0.0, 0.1, 0.3),
    delayed = if (maxDelayMs == 0) 0.0 else RandomQuery.oneOf(random, 0.0, 0.1, 0.4),
    maxDelayMs,
    left = RandomQuery.oneOf(random, 0.2, 0.5, 0.8)
  )
}

/** The random numbers for the details of a query, the same for every call. */
final class Choices(seed: Long) extends Random(RandomRuns.spread(seed)) {

  /** Delay of its watermark, in milliseconds. */
  val delayMs: Int = RandomQuery.oneOf(this, 0, 5000, 20000)

  /** The form of the grouping or join keys. */
  val keyForm: KeyForm = RandomQuery.oneOf(this, RandomKeys.Forms: _*)
}

/**
 * The form of the keys of a query.
 *
 * @param column
 *   returns the key column for the number of a key
 *
 * @param isFloating
 *   whether some keys are -0.0 or NaN
 */
final case class KeyForm(column: Column => Column, isFloating: Boolean, isNested: Boolean)

/** Numeric and nested keys, some of which are equal with different bits. */
object RandomKeys {
  private val number = expr(
    "case key % 5 when 0 then 0.0D when 1 then -0.0D when 2 then double('NaN') else key / 2 end"
  )

  private val Plain = KeyForm(identity, isFloating = false, isNested = false)

  val Forms: Seq[KeyForm] = Seq(
    Plain,
    Plain,
    KeyForm(_ => number, isFloating = true, isNested = false),
    KeyForm(
      key => struct(number.cast("float").as("n"), key % 2),
      isFloating = true,
      isNested = true
    ),
    KeyForm(key => array(number, key / 3), isFloating = true, isNested = true)
  )
}

/** New input for a query, a restart before it, and an incident while it is processed. */
final case class Step(rows: Seq[Reading], restart: Boolean, incident: Option[Incident])

/** A query with its input, configuration, restarts and incidents, all from one seed. */
final class RandomQuery(val seed: Long, isCalm: Boolean = false) {
  import RandomQuery._

  private val random = new Random(seed)

  val operator: StatefulOperator =
    StatefulOperators.all(Math.floorMod(seed, StatefulOperators.all.size.toLong).toInt)
  val settings: Map[String, String] = drawSettings(random) ++ operator.settings(random)
  private val inputs = Inputs.draw(random, MaxDelayMs)
  val steps: Seq[Step] = Seq.tabulate(3 + random.nextInt(4))(step)

  /** The same query without incidents. */
  def calm: RandomQuery = new RandomQuery(seed, isCalm = true)

  /** Builds the query; it is the same for every provider and after every restart. */
  def apply(input: Dataset[Reading]): DataFrame = operator.build(input, new Choices(seed))

  override def toString: String = {
    val events = steps.map(s => (s.rows.size, s.restart, s.incident))
    val chosen = settings.toSeq.sorted.map { case (key, value) => s"$key=$value" }
    s"CLEANCUT_SEED=$seed ${operator.name}, $inputs, ${chosen.mkString(" ")}, $events"
  }

  private def step(index: Int): Step = {
    val rows = inputs.rows(random, index, 1 + random.nextInt(150))
    Step(
      if (operator.oneRowPerKey) rows.distinctBy(_.key) else rows,
      restart = index > 0 && random.nextInt(4) == 0,
      incident = Option.when(random.nextInt(3) == 0)(drawIncident(random)).filterNot(_ => isCalm)
    )
  }
}

object RandomQuery {

  /** Twice the longest delay of a watermark. */
  private val MaxDelayMs = 40000
  private val FileManagers = classOf[FileSystemBasedCheckpointFileManager].getPackageName + "."

  def oneOf[T](random: Random, choices: T*): T = choices(random.nextInt(choices.size))

  private def drawIncident(random: Random): Incident = {
    val (place, ending) = oneOf[(Place, Ending)](
      random,
      Place.Source -> Ending.Retried,
      Place.Source -> Ending.Fatal,
      Place.State -> Ending.Retried,
      Place.State -> Ending.Retried,
      Place.State -> Ending.Fatal,
      Place.State -> Ending.Fatal,
      Place.State -> Ending.Stopped,
      Place.Sink -> Ending.Fatal
    )
    val rowsBefore = oneOf(random, 0, random.nextInt(40), Int.MaxValue)
    Incident(place, ending, random.nextInt(12), rowsBefore)
  }

  private def drawSettings(random: Random): Map[String, String] = Map(
    "spark.sql.shuffle.partitions" -> (1 + random.nextInt(4)).toString,
    "spark.sql.adaptive.enabled" -> "false",
    // Without native Hadoop code, Spark's default of the two starts processes for each file.
    "spark.sql.streaming.checkpointFileManagerClass" ->
      (FileManagers + oneOf(
        random,
        "FileContextBased" +: Seq.fill(4)("FileSystemBased"): _*
      ) + "CheckpointFileManager"),
    "spark.sql.streaming.minBatchesToRetain" -> (2 + random.nextInt(4)).toString,
    "spark.sql.streaming.maxBatchesToRetainInMemory" -> (1 + random.nextInt(2)).toString,
    "spark.sql.streaming.stateStore.checkpointFormatVersion" ->
      Math.min(1 + random.nextInt(2), TestedSpark.ReadableCheckpointFormat).toString,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> (1 + random.nextInt(4)).toString,
    "spark.sql.streaming.stateStore.maintenanceInterval" ->
      oneOf(random, "20ms", "100ms", "500ms", "60s"),
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true",
    "spark.sql.streaming.stateStore.cleancut.maxOffHeapMemory" -> oneOf(random, "auto", "1m")
  )
}
