package io.cleancut.e2e

import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark

import io.cleancut.testkit.inputs._

/** The inputs of [[UnalignedQuery]] and [[UnalignedFate]]. */
object UnalignedInputs {
  import QueryInputs._

  val Incidents: Seq[IncidentKind] = Seq(
    Place.Source -> Ending.Retried,
    Place.State -> Ending.Retried,
    Place.State -> Ending.Retried,
    Place.State -> Ending.Fatal,
    Place.Sink -> Ending.Fatal,
    Place.Sink -> Ending.Fatal
  )

  // Inputs of the query.
  val Operator: Dimension[StatefulOperator] = operatorsOf(UnalignedQuery.operators)
  val StateFormat: Dimension[Int] = formatsOf(UnalignedQuery.operators)
  val EqualRows: Dimension[Boolean] = Dimension.flag("equal rows of a key")

  // Inputs of a run.
  val CheckpointFormat = new Dimension[Int]("checkpoint format", 1 to 2)
  val MaxInFlight = new Dimension[String]("limit of in-flight bytes", Seq("64m", "64m", "2k"))
  val SplitsGroups: Dimension[Boolean] =
    new Dimension("splits groups", Seq(true, true, false), (splits: Boolean) => splits.toString)
  val FirstMode = new Dimension[String]("mode of the first start", Seq("unaligned", "auto"))
  val NextMode =
    new Dimension[String](
      "mode of the second start",
      Seq("unaligned", "unaligned", "auto", "aligned")
    )
  val SecondAction: Dimension[Action] = new Dimension(
    "second action of the sink",
    Seq.fill(3)(Action.None) ++ Seq(Action.BeforeSeal) ++ Seq.fill(2)(Action.AfterSeal),
    (action: Action) => action.toString
  )
  val Coalesced: Dimension[Boolean] = rare("coalesced partitions", 6)
  val NamedSource: Dimension[Boolean] =
    if (TestedSpark.NamesSources) rare("named source", 3)
    else new Dimension("named source", Seq(false), (_: Boolean) => "no")
  val Once: Dimension[Boolean] = Dimension.flag("trigger Once")
  val StopBetween: Dimension[Boolean] = Dimension.flag("stop between two epochs")
  val Restart: Dimension[Boolean] = Dimension.flag("restart")
  val Drain: Dimension[Boolean] = Dimension.flag("drain")
  val FirstIncident: Dimension[Option[IncidentKind]] = incidentsOf(Incidents)
  val CutsOfRun = new Dimension[Int]("cuts", 1 to 4)
  val PauseMs = new Dimension[Int]("pause between polls in ms", Seq(10, 40, 100))

  private val Query = InputSpace(
    "queries with cuts, without their runs",
    Seq(Operator, StateFormat, EqualRows) ++ OfRows,
    withoutFormats(Operator, StateFormat) ++ Seq(
      Impossible(
        Operator.where(!UnalignedQuery.mayRepeat(_)),
        EqualRows.where(identity),
        "the operator does not return each row"
      ),
      Impossible(
        formatsWithout(UnalignedQuery.mayRepeat(_)),
        EqualRows.where(identity),
        "the operators that return each row have fewer state formats"
      ),
      Impossible(
        WatermarkDelayMs.where(_ == 0),
        Delayed.where(_ > 0),
        "a delayed row would be late, and the epochs that drop it depend on cuts"
      )
    )
  )

  val Space: InputSpace = InputSpace(
    "queries with cuts",
    Query.dimensions ++ Seq(
      Partitions,
      CheckpointFormat,
      MinDeltas,
      MaxInFlight,
      SplitsGroups,
      FirstMode,
      NextMode,
      SecondAction,
      Coalesced,
      NamedSource,
      Once,
      StopBetween,
      Restart,
      Drain,
      FirstIncident,
      CutsOfRun,
      PauseMs
    ),
    Query.impossible ++ Seq(
      Impossible(
        Operator.where(_.name.contains("join")),
        NamedSource.where(identity),
        "Spark refuses a name that occurs twice, as in a self-join"
      ),
      Impossible(
        formatsWithout(!_.name.contains("join")),
        NamedSource.where(identity),
        "Spark refuses a name that occurs twice, as in a self-join"
      ),
      Impossible(
        Once.where(!_),
        StopBetween.where(identity),
        "the query stops before the epoch that a run with Once executes"
      )
    )
  )

  /** State formats that none of these operators has. */
  private def formatsWithout(isMeant: StatefulOperator => Boolean): Condition = {
    val most = Operator.values.filter(isMeant).map(_.variants.size).max
    StateFormat.where(_ >= most)
  }

  /** The value true in one run of this many, except for new pairs. */
  private def rare(name: String, every: Int): Dimension[Boolean] = new Dimension(
    name,
    true +: Seq.fill(every - 1)(false),
    (value: Boolean) => if (value) "yes" else "no"
  )

  /** Number of runs with the same query. Its expected output is computed once for all of them. */
  private val RunsPerQuery = 3

  /** One more than the values of a dimension of rows, of which each operator has all. */
  private val Rounds = 5

  private val ofQueries =
    new CoveringSelections(Query, Rounds * Operator.values.size, inTurn(Operator, _))

  private val ofRuns = new CoveringSelections(
    Space,
    RunsPerQuery * ofQueries.size,
    seed => ofQueries(queryOf(seed))
  )

  /** The least number of consecutive seeds whose runs have all possible pairs. */
  val enough: Int = ofRuns.enough

  /** The number of queries in a cycle. */
  def queries: Int = ofQueries.size

  def ofQuery(number: Long): Selection = ofQueries(number)

  def ofRun(seed: Long): Selection = ofRuns(seed)

  /** Consecutive seeds have different operators, so that few seeds cover all of them. */
  def queryOf(seed: Long): Long = {
    val operators = Operator.values.size.toLong
    Math.floorDiv(seed, operators * RunsPerQuery) * operators + Math.floorMod(seed, operators)
  }
}
