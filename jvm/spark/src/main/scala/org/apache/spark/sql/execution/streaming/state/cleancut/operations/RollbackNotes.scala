package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  EpochLogs,
  NewCheckpoint,
  StoredQuery
}

/** Notes for the user of a rollback, from the known facts of the query. */
private[operations] object RollbackNotes {

  /**
   * The notes of a planned rollback.
   *
   * @param query
   *   the query as it was after the target epoch
   * @param epoch
   *   epoch of the rollback
   * @param fileSink
   *   file sink that is rolled back with the query
   */
  def of(query: StoredQuery, epoch: Long, fileSink: Option[String]): Seq[String] = {
    val first = query.epoch + 1
    val last = if (query.epoch == query.last) query.begun else query.last
    if (first > last) Nil else notes(query, epoch, fileSink, first, last)
  }

  private def notes(
      query: StoredQuery,
      epoch: Long,
      fileSink: Option[String],
      first: Long,
      last: Long
  ): Seq[String] = {
    val epochs = if (first == last) s"epoch $first" else s"epochs $first to $last"
    val sink = fileSink.fold(s"The sink keeps the output of $epochs.") { path =>
      s"The output of $epochs in $path is no longer visible."
    }
    Seq(
      s"$sink Their input is processed again after epoch $epoch, in new epochs of the sink."
    ) ++ Option.when(hasFiles(query.offsets))(
      s"A file source reads all files of $epochs in one epoch, regardless of maxFilesPerTrigger."
    )
  }

  /**
   * Whether the offsets are those of a file source, which are entry numbers in the log of the
   * source.
   */
  private def hasFiles(offsets: EpochLogs.Offsets): Boolean =
    EpochLogs.bySource(offsets).flatMap(_._2).exists(NewCheckpoint.logEntryOf(_).isDefined)
}
