package io.cleancut.history

/**
 * A part of an epoch.
 *
 * @param name
 *   displayed name
 * @param doc
 *   explanation in one sentence
 * @param of
 *   milliseconds, from the timings of a record
 */
final case class EpochPhase(name: String, doc: String, durationMs: Map[String, Long] => Long)

/** The parts of an epoch. Their sum is its duration until its cut was written and checked. */
object EpochPhase {
  private def timing(keys: String*)(timings: Map[String, Long]): Long =
    keys.map(timings.getOrElse(_, 0L)).sum

  val Source: EpochPhase = EpochPhase(
    "source",
    "Time in which the driver asked the sources for new rows (latestOffset, getOffset, getBatch).",
    timing("sourceMs")
  )
  val Planning: EpochPhase = EpochPhase(
    "planning",
    "Time in which the driver planned the epoch and wrote its entry of the offset log " +
      "(queryPlanning, walCommit).",
    timing("planMs")
  )
  val MapSide: EpochPhase = EpochPhase(
    "map side",
    "Time of the tasks before the first state operator: they read rows, and run functions before " +
      "groupBy, joins or deduplication.",
    timing("mapMs")
  )
  val State: EpochPhase = EpochPhase(
    "state operators",
    "Time from the first task that opened a state store until the last store had written its " +
      "changes, with all operators of the same tasks.",
    timing("stateMs")
  )
  val Sink: EpochPhase = EpochPhase(
    "sink",
    "Time of the sink outside of the tasks of the state operators, for example of the function " +
      "in foreachBatch.",
    timing("sinkMs")
  )
  val Commit: EpochPhase = EpochPhase(
    "commit",
    "Time to make frames durable, to check the owner, and to write the cut.",
    timing("sealMs", "gateMs", "cutMs", "checkMs")
  )

  /** Times that belong to no other phase, by [[EpochRecord.tookMs]]. */
  val Other: EpochPhase = EpochPhase(
    "other",
    "Time of the driver that Spark does not measure.",
    timings => Math.max(0L, total(timings) - Measured.map(_.durationMs(timings)).sum)
  )

  /** Without [[Other]]. */
  lazy val Measured: Seq[EpochPhase] = Seq(Source, Planning, MapSide, State, Sink, Commit)

  /** In the order of time. */
  lazy val All: Seq[EpochPhase] = Measured :+ Other

  private def total(timings: Map[String, Long]) = timing("epochMs", "cutMs", "checkMs")(timings)
}
