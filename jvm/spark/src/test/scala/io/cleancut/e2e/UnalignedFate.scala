package io.cleancut.e2e

import scala.util.Random

import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.conf.Keys
import io.cleancut.e2e.RandomQuery.oneOf
import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/**
 * The events before and with new input of a query.
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

/** A second action of a sink on an epoch, before or after the seal. */
sealed trait Action

object Action {
  case object None extends Action
  case object BeforeSeal extends Action
  case object AfterSeal extends Action
}

/** The configuration and the events of one run of a randomized query, all from its seed. */
final class UnalignedFate(val seed: Long) {
  import UnalignedFate._

  private val random = RandomRuns.random(seed)

  val query: UnalignedQuery = new UnalignedQuery(queryOf(seed))

  /** Whether the source has a name. Spark refuses a name that occurs twice, as in a self-join. */
  val isNamed: Boolean = TestedSpark.NamesSources && !query.operator.name.contains("join") &&
    RandomRuns.random(seed + (1L << 35)).nextInt(3) == 0

  val settings: Map[String, String] = query.settings ++ Map(
    // All epochs are checked at the end, and Spark runs empty epochs with processing time.
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

  /** Number of epochs that are cut; each cut results in another epoch. */
  val cuts: Int = 1 + random.nextInt(4)

  /** Maximum pause between two polls of the epoch, in milliseconds. */
  val pauseMs: Int = oneOf(random, 10, 40, 100)

  // Separate, so that the other numbers of a seed do not change.
  private val onces = {
    val random = RandomRuns.random(seed + (1L << 32))
    // After the last epoch of a run, Spark evicts no state until the next run has new input.
    query.steps.indices.map { index =>
      index > 0 && index < query.steps.size - 1 && random.nextInt(4) == 0
    }
  }
  private val stops = RandomRuns.random(seed + (1L << 36))

  val steps: Seq[UnalignedStep] = query.steps.indices.map { index =>
    UnalignedStep(
      restart = index > 1 && random.nextInt(5) == 0,
      drain = random.nextInt(4) == 0,
      incident = Option.when(index > 0 && random.nextInt(5) < 2)(drawIncident(random)),
      once = onces(index),
      // Otherwise the next epoch is nearly always planned, and a run with Once executes it.
      stopsBetween = onces.lift(index + 1).contains(true) && stops.nextInt(3) > 0
    )
  }

  // The next start processes in-flight rows in any mode.
  private val modes =
    oneOf(random, "unaligned", "auto") +:
      Seq.fill(MostModes - 1)(oneOf(random, "unaligned", "unaligned", "auto", "aligned"))

  /** The mode of a start of the query; starts are numbered from 0. */
  def mode(start: Int): String = modes(start % MostModes)

  /** The second action of its sink on each epoch. */
  val action: Action =
    oneOf(
      random,
      Seq.fill(3)(Action.None) ++ Seq(Action.BeforeSeal) ++ Seq.fill(2)(Action.AfterSeal): _*
    )

  /** Whether one task processes all partitions of the last operator, one after the other. */
  val isCoalesced: Boolean = random.nextInt(6) == 0

  /** The rare features of the run. */
  def traits: Seq[String] = query.traits ++
    Option.when(steps.exists(_.once))("Once") ++ Option.when(isNamed)("named sources")

  override def toString: String = {
    val chosen = settings.toSeq.sorted.map { case (key, value) => s"$key=$value" }
    s"CLEANCUT_SEED=$seed $query, ${chosen.mkString(" ")}, modes ${modes.mkString(" ")}, " +
      s"second action $action, coalesced $isCoalesced, $steps"
  }
}

object UnalignedFate {

  /** Number of runs with the same query. Its expected output is computed once for all of them. */
  private val RunsPerQuery = 10
  private val MostModes = 8

  /** Consecutive seeds have different operators, so that few seeds cover all of them. */
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
