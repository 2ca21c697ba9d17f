package io.cleancut.e2e

import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.testkit.inputs._

/** Dimensions of the inputs of randomized queries. */
object QueryInputs {

  /** Place and ending of an incident. */
  type IncidentKind = (Place, Ending)

  val NoIncident = "none"

  val Keys = new Dimension[Int]("keys", Seq(1, 5, 30, 200))
  val Hot = new Dimension[Double]("share of the hot key", Seq(0.0, 0.0, 0.5, 0.9))
  val Nulls = new Dimension[Double]("share of null keys", Seq(0.0, 0.1, 0.3))
  val Delayed = new Dimension[Double]("share of delayed rows", Seq(0.0, 0.1, 0.4))
  val Left = new Dimension[Double]("share of the left side", Seq(0.2, 0.5, 0.8))
  val WatermarkDelayMs = new Dimension[Int]("watermark delay in ms", Seq(0, 5000, 20000))
  val FormOfKeys =
    new Dimension[KeyForm]("type of keys", RandomKeys.Forms, (form: KeyForm) => form.name)

  val Partitions = new Dimension[Int]("partitions", 1 to 4)
  val MinDeltas = new Dimension[Int]("changelogs before a snapshot", 1 to 4)

  val OfRows: Seq[Dimension[_]] =
    Seq(Keys, Hot, Nulls, Delayed, Left, WatermarkDelayMs, FormOfKeys)

  def operatorsOf(operators: Seq[StatefulOperator]): Dimension[StatefulOperator] =
    new Dimension("operator", operators, (operator: StatefulOperator) => operator.name)

  /** The number of a state format of an operator, from 0. */
  def formatsOf(operators: Seq[StatefulOperator]): Dimension[Int] =
    new Dimension("state format", 0 until operators.map(_.variants.size).max)

  def withoutFormats(
      operator: Dimension[StatefulOperator],
      format: Dimension[Int]
  ): Seq[Impossible] = operator.values.map(_.variants.size).distinct.sorted.init.map { count =>
    Impossible(
      operator.where(_.variants.size == count),
      format.where(_ >= count),
      "the operator has fewer state formats"
    )
  }

  def incidentsOf(kinds: Seq[IncidentKind]): Dimension[Option[IncidentKind]] = new Dimension(
    "incident",
    None +: kinds.map(Option(_)),
    (kind: Option[IncidentKind]) =>
      kind.fold(NoIncident) { case (place, ending) => Incident(place, ending, 0, 0).kind }
  )

  /** The value that the position of a seed determines; consecutive seeds have all values. */
  def inTurn(dimension: Dimension[_], number: Long): Selection = {
    val index = Math.floorMod(number, dimension.values.size.toLong).toInt
    Selection(Map(dimension.name -> index))
  }
}

/** The inputs of [[RandomQuery]]. */
object RandomQueryInputs {
  import QueryInputs._

  val Incidents: Seq[IncidentKind] = Seq(
    Place.Source -> Ending.Retried,
    Place.Source -> Ending.Fatal,
    Place.State -> Ending.Retried,
    Place.State -> Ending.Retried,
    Place.State -> Ending.Fatal,
    Place.State -> Ending.Fatal,
    Place.State -> Ending.Stopped,
    Place.Sink -> Ending.Fatal
  )

  val Operator: Dimension[StatefulOperator] = operatorsOf(StatefulOperators.all)
  val StateFormat: Dimension[Int] = formatsOf(StatefulOperators.all)
  val FileManager =
    new Dimension[String]("file manager", "FileContextBased" +: Seq.fill(4)("FileSystemBased"))
  val RetainedEpochs = new Dimension[Int]("retained epochs", 2 to 5)
  val RetainedInMemory = new Dimension[Int]("versions in memory", 1 to 2)
  val CheckpointFormat =
    new Dimension[Int]("checkpoint format", 1 to TestedSpark.ReadableCheckpointFormat)
  val MaintenanceInterval =
    new Dimension[String]("maintenance interval", Seq("20ms", "100ms", "500ms", "60s"))
  val OffHeapMemory = new Dimension[String]("off-heap memory", Seq("auto", "1m"))
  val Steps = new Dimension[Int]("steps", 3 to 6)
  val Restart: Dimension[Boolean] = Dimension.flag("restart")
  val FirstIncident: Dimension[Option[IncidentKind]] = incidentsOf(Incidents)

  val Space: InputSpace = InputSpace(
    "queries on Cleancut and RocksDB",
    Seq(
      Operator,
      StateFormat,
      Partitions,
      FileManager,
      RetainedEpochs,
      RetainedInMemory,
      CheckpointFormat,
      MinDeltas,
      MaintenanceInterval,
      OffHeapMemory,
      Steps,
      Restart,
      FirstIncident
    ) ++ OfRows,
    withoutFormats(Operator, StateFormat)
  )

  /** One more than the incidents, of which each operator has all. */
  private val Rounds = 8

  val selections =
    new CoveringSelections(Space, Rounds * Operator.values.size, inTurn(Operator, _))
}
