package io.cleancut.history

/**
 * A stage of Spark that ran for an epoch.
 *
 * @param id
 *   Spark's stage ID
 * @param phase
 *   name of the [[EpochPhase]] in which it ran
 * @param operators
 *   names of its operators in Spark's plan, from the source to the sink
 * @param startMs
 *   time of its submission since the trigger started
 * @param ms
 *   time until its completion
 */
final case class StageRecord(
    id: Int,
    phase: String,
    operators: Seq[String],
    tasks: Int,
    startMs: Long,
    ms: Long
) {

  /** For example "stage 12 (MicroBatchScan, MapInPandas, Exchange; 4 tasks)". */
  def description: String = {
    val names = if (operators.isEmpty) "" else s"${operators.mkString(", ")}; "
    val unit = if (tasks == 1) "task" else "tasks"
    s"stage $id ($names$tasks $unit)"
  }
}

/**
 * A completed stage.
 *
 * @param submittedMs
 *   time of its submission in milliseconds since 1970
 * @param completedMs
 *   time of its completion in milliseconds since 1970
 */
final case class CompletedStage(
    id: Int,
    operators: Seq[String],
    tasks: Int,
    submittedMs: Long,
    completedMs: Long
)

/**
 * The stages of an epoch, and the names of its state operators.
 *
 * @param operators
 *   Spark's names of the state operators by their IDs, as in `StateOperatorProgress`
 */
final case class EpochStages(stages: Seq[StageRecord], operators: Map[Long, String]) {

  /** For example "operator 0 (stateStoreSave)". */
  def operatorName(operator: Long): String =
    s"operator $operator" + operators.get(operator).fold("")(name => s" ($name)")

  /** The longest stage of a phase. */
  def longest(phase: EpochPhase): Option[StageRecord] =
    stages.filter(_.phase == phase.name).maxByOption(_.ms)
}

object EpochStages {
  val None: EpochStages = EpochStages(Nil, Map.empty)

  /** Longest stages that a record has. */
  val MaxStages = 16

  /** Stage times and phase times are rounded to milliseconds separately. */
  private val RoundingMs = 5L

  /**
   * The record with its stages. If the sink worked on the driver before its first stage, this time
   * moves from the map side to the sink. If tasks of the state operators continued after the last
   * store had written its changes, for example with a function on the results, this time moves from
   * the sink to the state operators.
   *
   * @param completed
   *   the stages of the epoch, by the clock that also recorded the time of its cut
   */
  def assign(
      record: EpochRecord,
      completed: Seq[CompletedStage],
      operators: Map[Long, String]
  ): EpochRecord = {
    val timings = record.timings
    def timing(name: String) = timings.getOrElse(name, 0L)
    val beganMs = record.writtenMs - timing("epochMs")
    val stateEndMs = record.writtenMs - timing("gateMs") - timing("sealMs") - timing("sinkMs")
    val openedMs = stateEndMs - timing("stateMs")
    val ofEpoch = completed.filter(_.submittedMs >= beganMs - RoundingMs)
    def phase(stage: CompletedStage) =
      if (!timings.contains("stateMs") || stage.submittedMs > stateEndMs + RoundingMs)
        EpochPhase.Sink
      else if (stage.completedMs <= openedMs + RoundingMs) EpochPhase.MapSide
      else EpochPhase.State
    val stages = ofEpoch.sortBy(stage => stage.submittedMs - stage.completedMs).take(MaxStages)
    val records = stages.sortBy(_.submittedMs).map { stage =>
      StageRecord(
        stage.id,
        phase(stage).name,
        stage.operators,
        stage.tasks,
        Math.max(0L, stage.submittedMs - beganMs),
        Math.max(0L, stage.completedMs - stage.submittedMs)
      )
    }
    val (mapMs, sinkMs) = (timing("mapMs"), timing("sinkMs"))
    val idleMs = ofEpoch.map(_.submittedMs).minOption.fold(0L)(_ - (openedMs - mapMs))
    val before = limited(idleMs, mapMs)
    val ends = ofEpoch.filter(phase(_) == EpochPhase.State).map(_.completedMs)
    val after = limited(ends.maxOption.fold(0L)(_ - stateEndMs), sinkMs)
    val moved = Map(
      "mapMs" -> (mapMs - before),
      "stateMs" -> (timing("stateMs") + after),
      "sinkMs" -> (sinkMs + before - after)
    )
    val adjusted = timings ++ moved.filter { case (name, _) => timings.contains(name) }
    record.copy(timings = adjusted, stages = EpochStages(records, operators))
  }

  /** A time to move between phases; 0 if it may be due to rounding. */
  private def limited(ms: Long, available: Long): Long =
    if (ms <= RoundingMs) 0L else Math.min(ms, available)
}
