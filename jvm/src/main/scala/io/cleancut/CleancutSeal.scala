package io.cleancut

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.execution.streaming.state.cleancut.EpochSeal

/** For functions of `foreachBatch` that let their output be seen only behind the seal. */
object CleancutSeal {

  /**
   * Runs the tasks of an epoch and makes its state durable, before anything of its output is made
   * visible. The rows of the batch are kept, as by `persist`, so that what is written afterwards is
   * what was sealed; call `unpersist` on what is returned when it is written.
   *
   * Called first in the function, it lets the tasks commit without waiting for the store, and their
   * state goes there in as few objects as it fits into.
   *
   * @param batch
   *   as Spark hands it to the function of `foreachBatch`
   * @param epoch
   *   likewise
   * @return
   *   what to write: the batch itself, or the same rows where Spark could not read them again once
   *   they are kept, as those of an aggregation that it sorts
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED if another driver owns the query, CLEANCUT_EPOCH_INCOMPLETE,
   *   CLEANCUT_SEAL_MISPLACED if the batch is of no query; nothing may be written then
   */
  def seal[A](batch: Dataset[A], epoch: Long): Dataset[A] = EpochSeal.run(batch, epoch)
}
