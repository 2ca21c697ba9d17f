package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  EpochLogs,
  NewCheckpoint,
  StoredQuery
}

/** What a rollback leaves to its user, by what is known of the query. */
private[operations] object RollbackNotes {

  /**
   * Of one that has been planned.
   *
   * @param query
   *   as it was after the epoch that is gone back to
   * @param epoch
   *   that of the rollback
   * @param fileSink
   *   which goes back with it
   */
  def of(query: StoredQuery, epoch: Long, fileSink: Option[String]): Seq[String] = {
    val first = query.epoch + 1
    val last = if (query.epoch == query.last) query.begun else query.last
    if (first > last) Nil else left(query, epoch, fileSink, first, last)
  }

  private def left(
      query: StoredQuery,
      epoch: Long,
      fileSink: Option[String],
      first: Long,
      last: Long
  ): Seq[String] = {
    val epochs = if (first == last) s"epoch $first" else s"epochs $first to $last"
    val sink = fileSink.fold(s"The sink keeps what it has of $epochs.") { path =>
      s"What $epochs have written to $path is not seen any more."
    }
    Seq(
      s"$sink What they took in comes again after epoch $epoch, in epochs that the sink has not " +
        "seen."
    ) ++ Option.when(hasFiles(query.offsets))(
      s"A source of files takes all files of $epochs in one epoch, whatever maxFilesPerTrigger is."
    )
  }

  /** By the offsets, which are the number of an entry in the log of the source. */
  private def hasFiles(offsets: EpochLogs.Offsets): Boolean =
    EpochLogs.bySource(offsets).flatMap(_._2).exists(NewCheckpoint.logEntryOf(_).isDefined)
}
