package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.EpochSeal

/** For `foreachBatch` functions that publish their output only after the seal. */
object CleancutSeal {
  private val mapper = new ObjectMapper

  /**
   * The epoch and run of a batch, as a JSON object: `queryId`, `runId`, `checkpoint` (the location
   * as Spark resolved it), `plannedMs` (when Spark selected its input), `sinks` (the published
   * epochs, as in a cut), and `lineage` (the checkpoints that this one continues).
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
   * Records in the checkpoint that sinks have published an epoch.
   *
   * @param sinks
   *   keys of their ledgers, as a JSON array
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, CLEANCUT_SEAL_BATCH_INVALID
   */
  def published(batch: Dataset[_], epoch: Long, sinks: String): Unit = {
    val keys = Set.newBuilder[String]
    mapper.readTree(sinks).forEach(key => keys += key.asText)
    EpochSeal.published(batch, epoch, keys.result())
  }

  /**
   * The operations on the checkpoint between an epoch and the epoch of a batch, ascending, as a
   * JSON array of objects with `epoch` and `source`.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SEAL_BATCH_INVALID
   */
  def operations(batch: Dataset[_], after: Long, epoch: Long): String = {
    val operations = mapper.createArrayNode()
    EpochSeal.operations(batch, after, epoch).foreach { case (operation, source) =>
      operations.addObject().put("epoch", operation).put("source", source)
    }
    mapper.writeValueAsString(operations)
  }

  /**
   * Runs the tasks of an epoch and makes its state durable before output is published. The rows of
   * the batch are persisted, so that exactly the sealed rows are written afterwards. Call
   * `unpersist` on the returned rows after they are written.
   *
   * If it is the first call in the function, tasks commit without waiting for the store, and their
   * state is uploaded in as few objects as possible.
   *
   * @param batch
   *   the batch of the `foreachBatch` function
   * @param epoch
   *   the batch ID
   * @return
   *   the rows to write: the batch, or the same rows if Spark could not read the persisted batch
   *   again, for example after an aggregation that sorts
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED if another driver owns the query, CLEANCUT_EPOCH_INCOMPLETE,
   *   CLEANCUT_SEAL_BATCH_INVALID if the batch belongs to no query; nothing may be written then
   */
  def seal[A](batch: Dataset[A], epoch: Long): Dataset[A] = EpochSeal.run(batch, epoch)

  /**
   * [[seal]] in two steps, for sinks that stage their rows before the epoch is sealed: this runs
   * the tasks and persists the rows, [[close]] then makes the epoch durable.
   *
   * @return
   *   the rows to write, as in [[seal]]
   */
  def compute[A](batch: Dataset[A], epoch: Long): Dataset[A] = EpochSeal.compute(batch, epoch)

  /**
   * Replaces [[compute]] for sinks that read the complete batch once, in one job: the tasks of the
   * epoch run in that job, and nothing is persisted.
   */
  def hold(batch: Dataset[_], epoch: Long): Unit = EpochSeal.hold(batch, epoch)

  /**
   * Makes an epoch durable after [[compute]] or [[hold]]. The staged output may be published
   * afterwards.
   *
   * @param output
   *   identifies the staged output for the sink. It is stored in the seal of an epoch that must be
   *   identical when it runs again; see [[sealedOutput]]
   */
  def close(batch: Dataset[_], epoch: Long, output: String): Unit =
    EpochSeal.close(batch, epoch, Some(output))

  /** The value that an earlier run passed to [[close]], if the seal of this epoch has it. */
  def sealedOutput(batch: Dataset[_], epoch: Long): Option[String] =
    EpochSeal.sealedOutput(batch, epoch)

  /**
   * Completes an epoch that an earlier run has sealed, instead of [[seal]], for sinks that have the
   * rows of that run. The sealed state and in-flight rows are used even if the input returns other
   * rows now.
   *
   * @return
   *   false if no run has sealed the epoch, so that it has to be sealed
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, CLEANCUT_CUT_CORRUPTED, CLEANCUT_FRAME_CORRUPTED, CLEANCUT_FRAME_MISSING
   */
  def finish(batch: Dataset[_], epoch: Long): Boolean = EpochSeal.finish(batch, epoch)
}
