package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.EpochSeal

/** For functions of `foreachBatch` that let their output be seen only behind the seal. */
object CleancutSeal {
  private val mapper = new ObjectMapper

  /**
   * Which epoch of which run a batch is, as a JSON object: `queryId`, `runId`, `checkpoint` (the
   * location as Spark resolved it), `plannedMs` (when Spark chose its input), `sinks` (the
   * published epochs, as a cut has them), and `lineage` (the checkpoints that this one continues).
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEAL_BATCH_INVALID
   */
  def batch(batch: Dataset[_], epoch: Long): String = {
    val (query, plannedMs) = EpochSeal.planned(batch, epoch)
    val node = mapper.createObjectNode().put("queryId", query.id.toString)
    node.put("runId", query.runId.toString).put("checkpoint", query.resolvedCheckpointRoot)
    node.put("plannedMs", plannedMs)
    EpochSeal.sinks(batch, epoch).write(node.putArray("sinks"))
    EpochSeal.lineage(batch, epoch).write(node.putArray("lineage"))
    mapper.writeValueAsString(node)
  }

  /**
   * Sinks have published an epoch: the checkpoint records it.
   *
   * @param sinks
   *   the keys of their ledgers, as a JSON array
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, CLEANCUT_SEAL_BATCH_INVALID
   */
  def published(batch: Dataset[_], epoch: Long, sinks: String): Unit = {
    val keys = Set.newBuilder[String]
    mapper.readTree(sinks).forEach(key => keys += key.asText)
    EpochSeal.published(batch, epoch, keys.result())
  }

  /**
   * The operations on the checkpoint after an epoch and before that of a batch, ascending, as a
   * JSON array of objects with `epoch` and `source`.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEAL_BATCH_INVALID
   */
  def operations(batch: Dataset[_], after: Long, epoch: Long): String = {
    val found = mapper.createArrayNode()
    EpochSeal.operations(batch, after, epoch).foreach { case (operation, source) =>
      found.addObject().put("epoch", operation).put("source", source)
    }
    mapper.writeValueAsString(found)
  }

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
   *   CLEANCUT_SEAL_BATCH_INVALID if the batch is of no query; nothing may be written then
   */
  def seal[A](batch: Dataset[A], epoch: Long): Dataset[A] = EpochSeal.run(batch, epoch)

  /**
   * The same in two steps, for a sink that writes the rows where nobody sees them before the epoch
   * is sealed: this runs the tasks and keeps the rows, [[close]] then makes the epoch durable.
   *
   * @return
   *   what to write, as of [[seal]]
   */
  def compute[A](batch: Dataset[A], epoch: Long): Dataset[A] = EpochSeal.compute(batch, epoch)

  /**
   * Comes in the place of [[compute]] for a sink that reads the batch in one job, whole, and never
   * again: the tasks of the epoch run in that job, and nothing is kept.
   */
  def hold(batch: Dataset[_], epoch: Long): Unit = EpochSeal.hold(batch, epoch)

  /**
   * Makes an epoch durable behind [[compute]] or [[hold]], and what is written of it may be shown
   * then.
   *
   * @param output
   *   by what the sink finds what it has written; kept with the seal of an epoch that is to be the
   *   same when it runs again, where [[sealedOutput]] finds it
   */
  def close(batch: Dataset[_], epoch: Long, output: String): Unit =
    EpochSeal.close(batch, epoch, Some(output))

  /** What an earlier run gave to [[close]], if the seal of this epoch has it. */
  def sealedOutput(batch: Dataset[_], epoch: Long): Option[String] =
    EpochSeal.sealedOutput(batch, epoch)

  /**
   * Finishes an epoch that an earlier run has sealed, in place of [[seal]], for a sink that has the
   * rows of that run. Its state and the rows that it left in flight are taken as they were sealed,
   * also where its input gives other rows now.
   *
   * @return
   *   false if no run has sealed the epoch, so that it is to be sealed
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, CLEANCUT_CUT_CORRUPTED, CLEANCUT_FRAME_CORRUPTED, CLEANCUT_FRAME_MISSING
   */
  def finish(batch: Dataset[_], epoch: Long): Boolean = EpochSeal.finish(batch, epoch)
}
