package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflinePlace,
  OfflineSource,
  StoredQuery
}

/**
 * The state of a checkpoint when an operation was planned. Each check ends an operation whose plan
 * is outdated, before anything is changed.
 *
 * @param epoch
 *   the epoch of the operation
 * @param source
 *   the epoch whose result it has
 * @param last
 *   the last committed epoch before it; -1 if there is none
 */
final case class PlannedEpochs(epoch: Long, source: Long, last: Long) {

  /** For an operation that changes the checkpoint. */
  private[operations] def checkLast(from: OfflinePlace, outdated: String => Nothing): Unit = {
    val committed = PlannedEpochs.committed(from)
    committed.lastOption.filter(_ != last).foreach(now => outdated(changed(now)))
  }

  /**
   * The source to read for the planned state. A query may commit epochs while it is cloned, and a
   * time or the last rollback may select another epoch than it did.
   */
  private[operations] def sourceIn(
      from: OfflinePlace,
      requested: OfflineSource,
      isCopied: Boolean,
      outdated: String => Nothing
  ): OfflineSource = requested match {
    case OfflineSource.Time(_) | OfflineSource.BeforeRollback => OfflineSource.Epoch(source)
    case OfflineSource.Last if isCopied                       =>
      val committed = PlannedEpochs.committed(from)
      if (committed.lastOption.forall(_ == source)) requested
      else if (committed.contains(source)) OfflineSource.Epoch(source)
      else {
        val retained = s"epochs ${committed.head} to ${committed.last} are retained now"
        outdated(s"it is for the state after epoch $source, and $retained")
      }
    case as => as
  }

  /** The name of a savepoint may have been given to another epoch. */
  private[operations] def checkSource(query: StoredQuery, outdated: String => Nothing): Unit =
    if (query.epoch != source) {
      outdated(s"it is for the state after epoch $source, which is epoch ${query.epoch} now")
    }

  /** For an operation whose epoch is committed, and whose sink has not been notified. */
  private[operations] def checkCommitted(now: OfflinePlan, outdated: String => Nothing): Unit =
    if (now.last != epoch && now.last != last) outdated(changed(now.last))

  private def changed(now: Long): String =
    s"the last epoch was $last when it was made, and is $now now"
}

object PlannedEpochs {

  /** Ascending. */
  private def committed(from: OfflinePlace): Seq[Long] =
    from.cuts.fold(from.logs.commitLog.listBatchesOnDisk.toSeq)(_._1.cuts.epochs()).sorted
}
