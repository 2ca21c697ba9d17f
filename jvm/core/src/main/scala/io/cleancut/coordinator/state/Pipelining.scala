package io.cleancut.coordinator.state

/**
 * Whether a run may begin an epoch while the cut of the one before is being written.
 *
 * @param reason
 *   why it may not; None if it may, or no epoch has been planned yet
 * @param last
 *   last epoch whose plan waits for its cut before the query is idle
 */
final case class Pipelining(reason: Option[String], last: Option[Long]) {
  def pipelines(epoch: Long): Boolean = reason.isEmpty && last.contains(epoch)
}

object Pipelining {
  val None: Pipelining = Pipelining(Option.empty, Option.empty)

  /** The plan of an epoch waits for its cut before the query is idle. */
  def at(epoch: Long): Pipelining = Pipelining(Option.empty, Some(epoch))

  def off(reason: String): Pipelining = Pipelining(Some(reason), Option.empty)
}
