package io.cleancut.e2e

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions.{array, expr, struct}

/** A row of the input of a drawn query; `left` is the side of a join that it belongs to. */
final case class Reading(key: Option[Long], ts: Timestamp, value: Long, left: Boolean)

object Reading {

  /** To make one by reflection takes longer than an epoch. */
  implicit val encoder: Encoder[Reading] = Encoders.product[Reading]
}

/**
 * How the input of a query is distributed.
 *
 * @param hot
 *   the share of rows that have the same key
 * @param behind
 *   the share of rows that come behind others of their time, by less than `mostBehindMs`
 */
final case class Inputs(
    keys: Int,
    hot: Double,
    nulls: Double,
    behind: Double,
    mostBehindMs: Int,
    left: Double
) {
  import Inputs._

  def rows(random: Random, step: Int, count: Int): Seq[Reading] = Seq.fill(count) {
    val behindMs = if (random.nextDouble() < behind) random.nextInt(mostBehindMs) else 0
    val atMs = StartMs + step * StepMs + random.nextInt(StepMs) - behindMs
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

  def draw(random: Random, mostBehindMs: Int): Inputs = Inputs(
    keys = DrawnQuery.oneOf(random, 1, 5, 30, 200),
    hot = DrawnQuery.oneOf(random, 0.0, 0.0, 0.5, 0.9),
    nulls = DrawnQuery.oneOf(random, 0.0, 0.1, 0.3),
    behind = if (mostBehindMs == 0) 0.0 else DrawnQuery.oneOf(random, 0.0, 0.1, 0.4),
    mostBehindMs,
    left = DrawnQuery.oneOf(random, 0.2, 0.5, 0.8)
  )
}

/** Numbers that a query's details are drawn from, the same at every call for it. */
final class Choices(seed: Long) extends Random(DrawnRuns.spread(seed)) {

  /** How long its watermark is behind the latest row. */
  val delayMs: Int = DrawnQuery.oneOf(this, 0, 5000, 20000)

  /** The form of the keys that rows are grouped or joined by. */
  val keyForm: KeyForm = DrawnQuery.oneOf(this, DrawnKeys.Forms: _*)
}

/**
 * Form of the keys of a query, given the number of the key.
 *
 * @param isFloating
 *   whether some keys are -0.0 or NaN
 */
final case class KeyForm(of: Column => Column, isFloating: Boolean, isNested: Boolean)

/** Keys as numbers, also nested, of which equal ones have different bits. */
object DrawnKeys {
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

/** New input for a query, and what happens to the query before and while it works on it. */
final case class Step(rows: Seq[Reading], restart: Boolean, incident: Option[Incident])

/** A query with its input, its configuration and its fate, all from one seed. */
final class DrawnQuery(val seed: Long, isCalm: Boolean = false) {
  import DrawnQuery._

  private val random = new Random(seed)

  val operator: StatefulOperator =
    StatefulOperators.all(Math.floorMod(seed, StatefulOperators.all.size.toLong).toInt)
  val settings: Map[String, String] = drawSettings(random) ++ operator.settings(random)
  private val inputs = Inputs.draw(random, MostLateMs)
  val steps: Seq[Step] = Seq.tabulate(3 + random.nextInt(4))(step)

  /** The same without incidents. */
  def calm: DrawnQuery = new DrawnQuery(seed, isCalm = true)

  /** The same query at every call, for every provider and after every restart. */
  def apply(input: Dataset[Reading]): DataFrame = operator.build(input, new Choices(seed))

  override def toString: String = {
    val fate = steps.map(s => (s.rows.size, s.restart, s.incident))
    val chosen = settings.toSeq.sorted.map { case (key, value) => s"$key=$value" }
    s"CLEANCUT_SEED=$seed ${operator.name}, $inputs, ${chosen.mkString(" ")}, $fate"
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

object DrawnQuery {

  /** Twice the longest delay of a watermark. */
  private val MostLateMs = 40000
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
    // Spark's default of the two starts processes for each file, where Hadoop has no native code.
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
