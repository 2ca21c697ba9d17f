package io.cleancut.e2e

import scala.util.Random

import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.conf.Keys
import io.cleancut.e2e.DrawnQuery.oneOf
import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/**
 * What happens to a query before and with new input, and whether all of it is awaited.
 *
 * @param once
 *   whether the query restarts with the trigger Once
 * @param stopsBetween
 *   whether the query is cut, and stopped before the next epoch begins
 */
final case class UnalignedStep(
    restart: Boolean,
    drain: Boolean,
    incident: Option[Incident],
    once: Boolean,
    stopsBetween: Boolean
)

/** Whether a sink runs the tasks of an epoch a second time, and when. */
sealed trait Action

object Action {
  case object None extends Action
  case object BeforeSeal extends Action
  case object BehindSeal extends Action
}

/** What one run of a drawn query goes through, and how it is configured; all from its seed. */
final class UnalignedFate(val seed: Long) {
  import UnalignedFate._

  private val random = DrawnRuns.random(seed)

  val query: UnalignedQuery = new UnalignedQuery(queryOf(seed))

  /** Whether the source has a name. Spark refuses a name that occurs twice, as in a self-join. */
  val isNamed: Boolean = TestedSpark.NamesSources && !query.operator.name.contains("join") &&
    DrawnRuns.random(seed + (1L << 35)).nextInt(3) == 0

  val settings: Map[String, String] = query.settings ++ Map(
    // All epochs are examined in the end, and processing time makes Spark run empty ones.
    "spark.sql.streaming.minBatchesToRetain" -> "100000",
    "spark.sql.shuffle.partitions" -> (1 + random.nextInt(4)).toString,
    "spark.sql.streaming.stateStore.checkpointFormatVersion" -> (1 + random.nextInt(2)).toString,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" -> (1 + random.nextInt(4)).toString,
    "spark.sql.streaming.stateStore.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    "spark.sql.streaming.checkpointFileManagerClass" ->
      classOf[CleancutCheckpointFileManager].getName,
    Keys.Cuts.name -> "true",
    Keys.MaxInFlightBytes.name -> oneOf(random, "64m", "64m", "2k"),
    Keys.SplitGroups.name -> oneOf(random, "true", "true", "false")
  ) ++ Option.when(isNamed)("spark.sql.streaming.queryEvolution.enableSourceEvolution" -> "true")

  /** How many epochs are cut; each of them makes another one. */
  val cuts: Int = 1 + random.nextInt(4)

  /** Between two looks at the epoch, at most. */
  val pauseMs: Int = oneOf(random, 10, 40, 100)

  // Separate, so that the other numbers of a seed do not change.
  private val onces = {
    val random = DrawnRuns.random(seed + (1L << 32))
    // After the last epoch of a run, Spark evicts no state until the next run has new input.
    query.steps.indices.map { index =>
      index > 0 && index < query.steps.size - 1 && random.nextInt(4) == 0
    }
  }
  private val stops = DrawnRuns.random(seed + (1L << 36))

  val steps: Seq[UnalignedStep] = query.steps.indices.map { index =>
    UnalignedStep(
      restart = index > 1 && random.nextInt(5) == 0,
      drain = random.nextInt(4) == 0,
      incident = Option.when(index > 0 && random.nextInt(5) < 2)(drawIncident(random)),
      once = onces(index),
      // Otherwise the next epoch is nearly always planned, and a run with Once has that one.
      stopsBetween = onces.lift(index + 1).contains(true) && stops.nextInt(3) > 0
    )
  }

  // Rows that one start left in flight, the next one takes up in whatever mode it is.
  private val modes =
    oneOf(random, "unaligned", "auto") +:
      Seq.fill(MostModes - 1)(oneOf(random, "unaligned", "unaligned", "auto", "aligned"))

  /** The mode of the query's start of this number, from 0. */
  def mode(start: Int): String = modes(start % MostModes)

  /** What its sink does with the rows of each epoch beside sealing them. */
  val action: Action =
    oneOf(
      random,
      Seq.fill(3)(Action.None) ++ Seq(Action.BeforeSeal) ++ Seq.fill(2)(Action.BehindSeal): _*
    )

  /** Whether one task takes all partitions of the last operator, one behind the other. */
  val isCoalesced: Boolean = random.nextInt(6) == 0

  /** What the run has of what many runs do not have. */
  def traits: Seq[String] = query.traits ++
    Option.when(steps.exists(_.once))("Once") ++ Option.when(isNamed)("named sources")

  override def toString: String = {
    val chosen = settings.toSeq.sorted.map { case (key, value) => s"$key=$value" }
    s"CLEANCUT_SEED=$seed $query, ${chosen.mkString(" ")}, modes ${modes.mkString(" ")}, " +
      s"second action $action, coalesced $isCoalesced, $steps"
  }
}

object UnalignedFate {

  /** How many runs take the same query. What it gives without cuts is looked up once for all. */
  private val RunsPerQuery = 10
  private val MostModes = 8

  /** The operators take turns, so that few seeds meet all of them. */
  private def queryOf(seed: Long): Long = {
    val operators = UnalignedQuery.operators.size.toLong
    Math.floorDiv(seed, operators * RunsPerQuery) * operators + Math.floorMod(seed, operators)
  }

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
}
