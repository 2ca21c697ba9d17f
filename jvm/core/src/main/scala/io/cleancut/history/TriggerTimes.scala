package io.cleancut.history

/**
 * Spark's measurements of an epoch from the start of its trigger until its commit begins.
 *
 * @param elapsedMs
 *   time since the trigger started
 * @param durationsMs
 *   milliseconds by the names in `StreamingQueryProgress.durationMs`
 */
final case class TriggerTimes(elapsedMs: Long, durationsMs: Map[String, Long]) {

  /** Time in the sources on the driver, without the tasks that read their rows. */
  def sourceMs: Long = sum(TriggerTimes.Source)

  /** Time to plan the epoch and to write its entry of the offset log. */
  def planMs: Long = sum(TriggerTimes.Plan)

  /** Time in the sink, with all tasks. */
  def addBatchMs: Long = sum(Seq("addBatch"))

  private def sum(names: Seq[String]) = names.map(durationsMs.getOrElse(_, 0L)).sum
}

object TriggerTimes {
  private val Source = Seq("latestOffset", "getOffset", "getBatch")
  private val Plan = Seq("queryPlanning", "walCommit")

  /** Spark's names of all parts until the commit begins. */
  val Names: Seq[String] = Source ++ Plan :+ "addBatch"
}
