package io.cleancut.e2e

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Dataset, Encoders}
import org.apache.spark.sql.functions.{coalesce, col, date_trunc, lit}
import org.apache.spark.sql.streaming._

import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}
import io.cleancut.conf.Keys
import io.cleancut.e2e.DrawnQuery.oneOf

/** New input, what happens to the query meanwhile, and whether all of it is awaited. */
final case class UnalignedStep(
    rows: Seq[Reading],
    restart: Boolean,
    drain: Boolean,
    incident: Option[Incident]
)

/**
 * A query with its input, its configuration and its fate, all from one seed, whose rows do not
 * depend on the epoch in which they arrive as long as none is late: so they are those of the same
 * query without any cut.
 */
final class UnalignedQuery(val seed: Long) {
  import UnalignedQuery._

  private val random = new Random(seed)

  val operator: StatefulOperator = operators(Math.floorMod(seed, operators.size.toLong).toInt)

  val settings: Map[String, String] = operator.settings(random) ++ Map(
    "spark.sql.codegen.wholeStage" -> "false",
    "spark.sql.codegen.factoryMode" -> "NO_CODEGEN",
    "spark.sql.shuffle.partitions" -> (1 + random.nextInt(4)).toString,
    "spark.sql.adaptive.enabled" -> "false",
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> (1 + random.nextInt(2)).toString,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> (1 + random.nextInt(4)).toString
  )

  val cutSettings: Map[String, String] = Map(
    "spark.sql.streaming.stateStore.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    "spark.sql.streaming.checkpointFileManagerClass" ->
      classOf[CleancutCheckpointFileManager].getName,
    Keys.Cuts.name -> "true",
    Keys.Mode.name -> oneOf(random, "unaligned", "auto"),
    Keys.MaxInFlightBytes.name -> oneOf(random, "64m", "64m", "2k")
  )

  private val inputs = Inputs.draw(random).copy(late = 0.0)
  val steps: Seq[UnalignedStep] = Seq.tabulate(4 + random.nextInt(4))(step)

  /**
   * A join numbers the rows of a key as they come, of equal rows the first one counts for how long
   * it is remembered, and a processor's variables are its own.
   */
  def hasComparableState: Boolean = !operator.name.contains(" join") &&
    !operator.name.startsWith("transformWithState") && !operator.name.contains("WithinWatermark")

  /** The same query at every call. */
  def apply(input: Dataset[Reading]): DataFrame = operator.build(input, new Random(seed))

  override def toString: String = {
    val fate = steps.map(s => (s.rows.size, s.restart, s.drain, s.incident))
    s"CLEANCUT_SEED=$seed ${operator.name}, $inputs, ${(settings ++ cutSettings).toSeq.sorted
        .map { case (key, value) => s"$key=$value" }
        .mkString(" ")}, $fate"
  }

  private def step(index: Int): UnalignedStep = UnalignedStep(
    inputs.rows(random, index, 20 + random.nextInt(150)),
    restart = index > 1 && random.nextInt(5) == 0,
    drain = random.nextInt(4) == 0,
    incident = Option.when(index > 1 && random.nextInt(3) == 0)(drawIncident(random))
  )
}

object UnalignedQuery {
  private def drawn = StatefulOperators.all.filter { operator =>
    val name = operator.name
    name.contains("aggregation") && !name.contains(", aggregation") || name.contains(" join") ||
    name.startsWith(
      "session windows"
    ) || name == "dropDuplicates" || name == "dropDuplicates with watermark"
  }

  val operators: Seq[StatefulOperator] = drawn ++ Seq(
    StatefulOperator(
      "flatMapGroupsWithState by row",
      OutputMode.Append(),
      (input, _) => countedByRow(input)
    ),
    StatefulOperator(
      "transformWithState by row",
      OutputMode.Append(),
      (input, _) => processedByRow(input)
    ),
    StatefulOperator(
      "dropDuplicatesWithinWatermark by second",
      OutputMode.Append(),
      distinctSeconds
    )
  )

  private def drawIncident(random: Random): Incident = {
    val (place, ending) = oneOf[(Place, Ending)](
      random,
      Place.Source -> Ending.Retried,
      Place.State -> Ending.Retried,
      Place.State -> Ending.Retried,
      Place.State -> Ending.Fatal,
      Place.Sink -> Ending.Fatal,
      Place.Sink -> Ending.Fatal
    )
    Incident(place, ending, random.nextInt(12), oneOf(random, random.nextInt(40), Int.MaxValue))
  }

  private def events(input: Dataset[Reading]): Dataset[Event] = input
    .select(coalesce(col("key"), lit(-1L)).as("key"), col("ts"), col("value"))
    .as(Encoders.product[Event])

  private def countedByRow(input: Dataset[Reading]): DataFrame = {
    val session = input.sparkSession
    import session.implicits._
    events(input)
      .groupByKey(_.key)
      .flatMapGroupsWithState[Long, (Long, Long)](
        OutputMode.Append(),
        GroupStateTimeout.NoTimeout()
      )(countRows)
      .toDF("key", "number")
  }

  /** The number of each row among those of its key. */
  private def countRows(
      key: Long,
      rows: Iterator[Event],
      state: GroupState[Long]
  ): Iterator[(Long, Long)] = {
    val before = state.getOption.getOrElse(0L)
    val numbers = rows.zipWithIndex.map { case (_, i) => (key, before + i + 1) }.toVector
    state.update(before + numbers.size)
    numbers.iterator
  }

  /** Equal rows are within a second, which is less than the delay; so one of them is left. */
  private def distinctSeconds(input: Dataset[Reading], random: Random): DataFrame = input
    .withColumn("second", date_trunc("second", col("ts")))
    .withWatermark("ts", oneOf(random, "5 seconds", "20 seconds"))
    .dropDuplicatesWithinWatermark("key", "second")
    .select("key", "second")

  private def processedByRow(input: Dataset[Reading]): DataFrame = {
    val session = input.sparkSession
    import session.implicits._
    events(input)
      .groupByKey(_.key)
      .transformWithState(new RowCounter, TimeMode.None(), OutputMode.Append())
      .toDF("key", "number")
  }
}

/** The number of each row among those of its key. */
class RowCounter extends StatefulProcessor[Long, Event, (Long, Long)] {
  @transient private var count: ValueState[Long] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    count = getHandle.getValueState("count", Encoders.scalaLong, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Event],
      timers: TimerValues
  ): Iterator[(Long, Long)] = rows.map { _ =>
    val next = (if (count.exists()) count.get() else 0L) + 1
    count.update(next)
    (key, next)
  }
}
