package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  UnfinishedOperations
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.base.Clock
import io.cleancut.coordinator.state.Begun

/**
 * The actions of a run before Spark reads the logs of its query, in the query's thread: it takes
 * ownership, plans the epoch that no other run may plan any longer, and reads ahead what Spark
 * reads next.
 *
 * @param offsets
 *   `<checkpointLocation>/offsets`, and its file manager
 * @param prepare
 *   further preparations
 * @param readAhead
 *   reads the logs ahead
 */
final class StartOfRun(
    committer: QueryCommitter,
    offsets: Path,
    files: CheckpointFileManager,
    prepare: Begun => Unit,
    clock: Clock,
    readAhead: () => Unit = () => ()
) {

  /**
   * Has no effect in threads that do not belong to a query, and for a run that was already started.
   */
  private def run(): Unit = committer.atStart(CheckpointLogs.Offsets) { begun =>
    // An earlier run may add an entry until that epoch is planned here.
    if (begun.isAlone) readAhead()
    prepare(begun)
    UnfinishedOperations.check(begun, offsets, files)
    DrainPlan.write(begun, offsets, files, clock)
    if (!begun.isAlone) readAhead()
  }

  /** Wraps the offset log. */
  def ofOffsets(log: CheckpointFileManager): OwnedLog =
    new OwnedLog(
      offsets,
      log,
      () => committer.checkOwner(),
      () => run(),
      () => committer.starts,
      (entry, write) =>
        entry.fold(QueryCommitter.now(write()))(epoch => committer.plan(epoch)(write()))
    )

  /** Wraps the commit log on a Hadoop file system, whose entries are written after cuts. */
  def ofCommits(directory: Path, log: CheckpointFileManager): OwnedLog = {
    val commits = new CutCommits(directory, log, committer)
    new OwnedLog(directory, commits, () => committer.checkOwner(), () => run())
  }

  /** Wraps the log of a source, to which no other run may add once Spark reads it. */
  def ofSource(directory: Path, log: CheckpointFileManager): OwnedLog = {
    def start(): Unit = {
      run()
      committer.atStart(directory.toString)(SourceFence.write(_, directory))
    }
    new OwnedLog(
      directory,
      log,
      () => committer.checkOwner(),
      () => start(),
      plan = (_, write) => committer.record(write())
    )
  }
}
