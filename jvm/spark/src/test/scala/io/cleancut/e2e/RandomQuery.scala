package io.cleancut.e2e

import java.sql.Timestamp

import scala.util.Random

import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoder, Encoders}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.functions.{array, expr, struct}

import io.cleancut.e2e.QueryInputs.IncidentKind
import io.cleancut.testkit.inputs.Selection

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

  def apply(selected: Selection, maxDelayMs: Int): Inputs = {
    import QueryInputs._
    Inputs(
      selected(Keys),
      selected(Hot),
      selected(Nulls),
      selected(Delayed),
      maxDelayMs,
      selected(Left)
    )
  }
}

/** The random numbers for the details of a query, the same for every call. */
final class Choices(seed: Long, selected: Selection) extends Random(RandomRuns.spread(seed)) {

  /** Delay of its watermark, in milliseconds. */
  def delayMs: Int = selected(QueryInputs.WatermarkDelayMs)

  /** The form of the grouping or join keys. */
  def keyForm: KeyForm = selected(QueryInputs.FormOfKeys)
}

/**
 * The form of the keys of a query.
 *
 * @param name
 *   the name in reports
 *
 * @param column
 *   returns the key column for the number of a key
 *
 * @param isFloating
 *   whether some keys are -0.0 or NaN
 */
final case class KeyForm(
    name: String,
    column: Column => Column,
    isFloating: Boolean,
    isNested: Boolean
)

/** Numeric and nested keys, some of which are equal with different bits. */
object RandomKeys {
  private val number = expr(
    "case key % 5 when 0 then 0.0D when 1 then -0.0D when 2 then double('NaN') else key / 2 end"
  )

  private val Plain = KeyForm("long", identity, isFloating = false, isNested = false)

  val Forms: Seq[KeyForm] = Seq(
    Plain,
    Plain,
    KeyForm("double", _ => number, isFloating = true, isNested = false),
    KeyForm(
      "struct",
      key => struct(number.cast("float").as("n"), key % 2),
      isFloating = true,
      isNested = true
    ),
    KeyForm("array", key => array(number, key / 3), isFloating = true, isNested = true)
  )
}

/** New input for a query, a restart before it, and an incident while it is processed. */
final case class Step(rows: Seq[Reading], restart: Boolean, incident: Option[Incident])

/** A query with its input, configuration, restarts and incidents, all from one seed. */
final class RandomQuery(val seed: Long, isCalm: Boolean = false) {
  import RandomQuery._

  private val selected = RandomQueryInputs.selections(seed)
  private val random = new Random(seed)

  val operator: StatefulOperator = selected(RandomQueryInputs.Operator)
  val settings: Map[String, String] =
    settingsOf(selected) ++ operator.variants(selected(RandomQueryInputs.StateFormat))
  private val inputs = Inputs(selected, MaxDelayMs)
  val steps: Seq[Step] = {
    val count = selected(RandomQueryInputs.Steps)
    val restarted = Option.when(selected(RandomQueryInputs.Restart))(1 + random.nextInt(count - 1))
    val incident = selected(RandomQueryInputs.FirstIncident)
    val failed = incident.map(_ => random.nextInt(count))
    Seq.tabulate(count) { index =>
      val rows = inputs.rows(random, index, 1 + random.nextInt(150))
      val drawn = drawIncident(random, incident.filter(_ => failed.contains(index)))
      val hasIncident = failed.contains(index) || random.nextInt(3) == 0
      val restarts = restarted.contains(index) || index > 0 && random.nextInt(4) == 0
      Step(
        if (operator.oneRowPerKey) rows.distinctBy(_.key) else rows,
        restart = restarted.isDefined && restarts,
        incident = Option.when(incident.isDefined && hasIncident && !isCalm)(drawn)
      )
    }
  }

  /** The values of the dimensions of [[RandomQueryInputs]]. */
  def covered: Map[String, Set[String]] = {
    val incidents = steps.flatMap(_.incident).map(_.kind).toSet
    selected.names(RandomQueryInputs.Space.dimensions) ++ Map(
      RandomQueryInputs.FirstIncident.name ->
        (if (incidents.isEmpty) Set(QueryInputs.NoIncident) else incidents),
      RandomQueryInputs.Restart.name -> Set(if (steps.exists(_.restart)) "yes" else "no")
    )
  }

  /** The same query without incidents. */
  def calm: RandomQuery = new RandomQuery(seed, isCalm = true)

  /** Builds the query; it is the same for every provider and after every restart. */
  def apply(input: Dataset[Reading]): DataFrame = operator.build(input, new Choices(seed, selected))

  override def toString: String = {
    val events = steps.map(s => (s.rows.size, s.restart, s.incident))
    val chosen = settings.toSeq.sorted.map { case (key, value) => s"$key=$value" }
    s"CLEANCUT_SEED=$seed ${operator.name}, $inputs, ${chosen.mkString(" ")}, $events"
  }
}

object RandomQuery {

  /** Twice the longest delay of a watermark. */
  private val MaxDelayMs = 40000
  private val FileManagers = classOf[FileSystemBasedCheckpointFileManager].getPackageName + "."

  def oneOf[T](random: Random, choices: T*): T = choices(random.nextInt(choices.size))

  /**
   * An incident.
   *
   * @param kind
   *   place and ending; None for random ones
   */
  private def drawIncident(random: Random, kind: Option[IncidentKind]): Incident = {
    val drawn = oneOf(random, RandomQueryInputs.Incidents: _*)
    val (place, ending) = kind.getOrElse(drawn)
    val rowsBefore = oneOf(random, 0, random.nextInt(40), Int.MaxValue)
    Incident(place, ending, random.nextInt(12), rowsBefore)
  }

  private def settingsOf(selected: Selection): Map[String, String] = {
    import RandomQueryInputs._
    Map(
      "spark.sql.shuffle.partitions" -> selected(QueryInputs.Partitions).toString,
      "spark.sql.adaptive.enabled" -> "false",
      "spark.sql.streaming.checkpointFileManagerClass" ->
        s"$FileManagers${selected(FileManager)}CheckpointFileManager",
      "spark.sql.streaming.minBatchesToRetain" -> selected(RetainedEpochs).toString,
      "spark.sql.streaming.maxBatchesToRetainInMemory" -> selected(RetainedInMemory).toString,
      "spark.sql.streaming.stateStore.checkpointFormatVersion" ->
        selected(CheckpointFormat).toString,
      "spark.sql.streaming.stateStore.minDeltasForSnapshot" ->
        selected(QueryInputs.MinDeltas).toString,
      "spark.sql.streaming.stateStore.maintenanceInterval" -> selected(MaintenanceInterval),
      "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true",
      "spark.sql.streaming.stateStore.cleancut.maxOffHeapMemory" -> selected(OffHeapMemory)
    )
  }
}
