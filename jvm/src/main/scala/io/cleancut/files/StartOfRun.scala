package io.cleancut.files

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.Clock
import io.cleancut.cuts.Begun

/**
 * What a run does before Spark reads the logs of its query, in the query's own thread: it takes the
 * ownership, and plans the epoch that no other run is to plan any more.
 *
 * @param offsets
 *   `<checkpointLocation>/offsets`, and what writes there
 * @param prepare
 *   what else is to be there
 */
final private[cleancut] class StartOfRun(
    gate: Gate,
    offsets: Path,
    files: CheckpointFileManager,
    prepare: Begun => Unit,
    clock: Clock
) {
  private var isDone = false

  /** Does nothing in a thread that is not a query's own, nor a second time. */
  def run(): Unit = synchronized {
    if (!isDone) gate.begin().foreach { begun =>
      isDone = true
      prepare(begun)
      DrainPlan.write(begun, offsets, files, clock)
    }
  }
}
