package io.cleancut.coordinator.state

/**
 * Why operators of a run are not executed as the settings request, by operator ID.
 *
 * @param aligned
 *   why operators are not captured
 * @param pysparkLoop
 *   why PySpark's loop over groups is not replaced
 */
final case class OperatorReasons(aligned: Map[Long, String], pysparkLoop: Map[Long, String])

object OperatorReasons {
  val None: OperatorReasons = OperatorReasons(Map.empty, Map.empty)
}
