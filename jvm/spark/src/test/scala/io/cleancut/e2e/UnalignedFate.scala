package io.cleancut.e2e

import scala.util.Random

import io.cleancut.conf.Keys
import io.cleancut.e2e.QueryInputs.IncidentKind
import io.cleancut.e2e.RandomQuery.oneOf
import io.cleancut.testkit.inputs.Dimension
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

  private val selected = UnalignedInputs.ofRun(seed)

  val query: UnalignedQuery = new UnalignedQuery(UnalignedInputs.queryOf(seed))

  /** Whether the source has a name. Spark refuses a name that occurs twice, as in a self-join. */
  val isNamed: Boolean = selected(UnalignedInputs.NamedSource)

  val settings: Map[String, String] = query.settings ++ Map(
    // All epochs are checked at the end, and Spark runs empty epochs with processing time.
    "spark.sql.streaming.minBatchesToRetain" -> "100000",
    "spark.sql.shuffle.partitions" -> selected(QueryInputs.Partitions).toString,
    "spark.sql.streaming.stateStore.checkpointFormatVersion" ->
      selected(UnalignedInputs.CheckpointFormat).toString,
    "spark.sql.streaming.stateStore.minDeltasForSnapshot" ->
      selected(QueryInputs.MinDeltas).toString,
    "spark.sql.streaming.stateStore.providerClass" -> classOf[CleancutStateStoreProvider].getName,
    "spark.sql.streaming.checkpointFileManagerClass" ->
      classOf[CleancutCheckpointFileManager].getName,
    Keys.Cuts.name -> "true",
    Keys.MaxInFlightBytes.name -> selected(UnalignedInputs.MaxInFlight),
    Keys.SplitGroups.name -> selected(UnalignedInputs.SplitsGroups).toString
  ) ++ Option.when(isNamed)("spark.sql.streaming.queryEvolution.enableSourceEvolution" -> "true")

  /** Number of epochs that are cut; each cut results in another epoch. */
  val cuts: Int = selected(UnalignedInputs.CutsOfRun)

  /** Maximum pause between two polls of the epoch, in milliseconds. */
  val pauseMs: Int = selected(UnalignedInputs.PauseMs)

  private val last = query.steps.size - 1

  // After the last epoch of a run, Spark evicts no state until the next run has new input.
  private val onces = someOf(UnalignedInputs.Once, 1 until last, every = 4)

  // Otherwise the next epoch is nearly always planned, and a run with Once executes it.
  private val stops = someOf(UnalignedInputs.StopBetween, onces.map(_ - 1).toSeq.sorted, every = 2)
  private val restarts = someOf(UnalignedInputs.Restart, 2 to last, every = 5)
  private val drains = someOf(UnalignedInputs.Drain, 0 to last, every = 4)

  private val incidents: Map[Int, Incident] =
    selected(UnalignedInputs.FirstIncident).toSeq.flatMap { kind =>
      val first = 1 + random.nextInt(last)
      (1 to last).filter(_ != first).filter(_ => random.nextInt(5) < 2).map { index =>
        index -> drawIncident(random, oneOf(random, UnalignedInputs.Incidents: _*))
      } :+ (first -> drawIncident(random, kind))
    }.toMap

  val steps: Seq[UnalignedStep] = query.steps.indices.map { index =>
    UnalignedStep(
      restart = restarts(index),
      drain = drains(index),
      incident = incidents.get(index),
      once = onces(index),
      stopsBetween = stops(index)
    )
  }

  // The next start processes in-flight rows in any mode.
  private val modes =
    Seq(selected(UnalignedInputs.FirstMode), selected(UnalignedInputs.NextMode)) ++
      Seq.fill(MostModes - 2)(oneOf(random, UnalignedInputs.NextMode.choices: _*))

  /** The mode of a start of the query; starts are numbered from 0. */
  def mode(start: Int): String = modes(start % MostModes)

  /** The second action of its sink on each epoch. */
  val action: Action = selected(UnalignedInputs.SecondAction)

  /** Whether one task processes all partitions of the last operator, one after the other. */
  val isCoalesced: Boolean = selected(UnalignedInputs.Coalesced)

  /** The values of the dimensions of [[UnalignedInputs]]. */
  def covered: Map[String, Set[String]] = {
    val kinds = steps.flatMap(_.incident).map(_.kind).toSet
    def flag(dimension: Dimension[Boolean], isSet: UnalignedStep => Boolean) =
      dimension.name -> Set(if (steps.exists(isSet)) "yes" else "no")
    selected.names(UnalignedInputs.Space.dimensions) ++ Map(
      UnalignedInputs.FirstIncident.name ->
        (if (kinds.isEmpty) Set(QueryInputs.NoIncident) else kinds),
      flag(UnalignedInputs.Once, _.once),
      flag(UnalignedInputs.StopBetween, _.stopsBetween),
      flag(UnalignedInputs.Restart, _.restart),
      flag(UnalignedInputs.Drain, _.drain)
    )
  }

  /** The steps with an event: none, or at least one of the possible steps. */
  private def someOf(dimension: Dimension[Boolean], possible: Seq[Int], every: Int): Set[Int] =
    if (!selected(dimension)) Set.empty
    else possible.filter(_ => random.nextInt(every) == 0).toSet + oneOf(random, possible: _*)

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

  private val MostModes = 8

  private def drawIncident(random: Random, kind: IncidentKind): Incident = {
    val (place, ending) = kind
    Incident(place, ending, random.nextInt(12), oneOf(random, random.nextInt(40), Int.MaxValue))
  }
}
