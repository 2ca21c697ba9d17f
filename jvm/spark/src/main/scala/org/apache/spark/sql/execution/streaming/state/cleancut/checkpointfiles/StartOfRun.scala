package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  UnfinishedOperations
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.Gate

import io.cleancut.base.Clock
import io.cleancut.coordinator.state.Begun

/**
 * What a run does before Spark reads the logs of its query, in the query's own thread: it takes the
 * ownership, and plans the epoch that no other run is to plan any more.
 *
 * @param offsets
 *   `<checkpointLocation>/offsets`, and what writes there
 * @param prepare
 *   what else is to be there
 */
final class StartOfRun(
    gate: Gate,
    offsets: Path,
    files: CheckpointFileManager,
    prepare: Begun => Unit,
    clock: Clock
) {

  /** Does nothing in a thread that is not a query's own, nor a second time for a run. */
  private def run(): Unit = gate.atStart(CheckpointLogs.Offsets) { begun =>
    prepare(begun)
    UnfinishedOperations.check(begun, offsets, files)
    DrainPlan.write(begun, offsets, files, clock)
    ()
  }

  /** The log of offsets over what reads and writes it. */
  def ofOffsets(log: CheckpointFileManager): OwnedLog =
    new OwnedLog(offsets, log, () => gate.checkOwner(), () => run(), () => gate.starts)

  /** The log of commits, on a file system of Hadoop, whose entries are written behind cuts. */
  def ofCommits(directory: Path, log: CheckpointFileManager): OwnedLog = {
    val gated = new GatedCommits(directory, log, gate)
    new OwnedLog(directory, gated, () => gate.checkOwner(), () => run())
  }

  /** The log of a source, to which no other run is to add any more when Spark reads it. */
  def ofSource(directory: Path, log: CheckpointFileManager): OwnedLog = {
    def start(): Unit = {
      run()
      gate.atStart(directory.toString)(SourceFence.write(_, directory))
    }
    new OwnedLog(directory, log, () => gate.checkOwner(), () => start())
  }
}
