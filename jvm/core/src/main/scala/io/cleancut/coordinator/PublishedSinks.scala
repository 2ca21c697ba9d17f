package io.cleancut.coordinator

import io.cleancut.format.SinkEpochs

/**
 * The record of the epochs that sinks have published, which each cut contains. The ledger of a run
 * has it, under the lock of the [[RunRegistry]].
 */
final private[coordinator] class PublishedSinks(runs: RunRegistry) {

  /**
   * The epochs that sinks have published, up to the last that is committed.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def recorded(runId: String, epoch: Long): SinkEpochs = {
    val run = runs.believed(runId, epoch)
    runs.locked(run.ledger.sinks)
  }

  /**
   * Sinks, by the keys of their ledgers, have published an epoch; its cut records that.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def add(runId: String, epoch: Long, sinks: Set[String]): Unit = {
    val run = runs.believed(runId, epoch)
    runs.locked(run.ledger.published(epoch, sinks))
  }
}
