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

  /** Does nothing in a thread that is not a query's own, nor a second time for a run. */
  def run(): Unit = gate.atStart(CheckpointLogs.Offsets) { begun =>
    prepare(begun)
    DrainPlan.write(begun, offsets, files, clock)
    ()
  }

  /** Ends with CLEANCUT_FENCED if there is another owner by now. */
  def checkOwner(): Unit = gate.checkOwner()

  /** The same before Spark reads the log of a source, to which no other run is to add any more. */
  def ofSource(log: Path): Unit = {
    run()
    gate.atStart(log.toString)(SourceFence.write(_, log))
  }
}
