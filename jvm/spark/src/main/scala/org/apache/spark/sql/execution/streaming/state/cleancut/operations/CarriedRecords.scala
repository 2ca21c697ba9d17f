package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.RootRecords
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflineMarks,
  OfflinePlace,
  OfflineTarget,
  StoredQuery
}

import io.cleancut.format.cut.{Lineage, Origin, SinkEpochs, StoredSinkEpochs}

/**
 * Records of a checkpoint that sinks read: its published epochs, and the checkpoints that it
 * continues.
 */
private[operations] object CarriedRecords {

  /** The published epochs that count after an epoch of a query. */
  def of(from: OfflinePlace, query: StoredQuery): SinkEpochs =
    query.cutIn(from).fold(uncut(from, query))(_.sinks)

  private def uncut(from: OfflinePlace, query: StoredQuery): SinkEpochs =
    recordsOf(from).sinks().fold(SinkEpochs.Empty) { record =>
      val log = from.logs.offsetLog
      val later = for {
        number <- record.until + 1 to query.epoch
        entry <- log.get(number)
        if OfflineMarks.isOne(entry)
        source <- OfflineMarks.sourceOf(entry)
      } yield number -> source
      record.sinks.after(later).upTo(query.epoch)
    }

  /** Writes the published epochs to a new checkpoint without cuts. */
  def write(target: OfflineTarget, query: StoredQuery, sinks: SinkEpochs): Unit =
    if (sinks.ranges.nonEmpty) recordsOf(target.place).write(StoredSinkEpochs(query.epoch, sinks))

  /**
   * Records which checkpoints a new one continues: none, if it belongs to another query.
   *
   * @param query
   *   the query that is continued
   */
  def continue(
      place: OfflinePlace,
      from: OfflinePlace,
      query: StoredQuery,
      isOther: Boolean
  ): Unit =
    recordsOf(place).write(if (isOther) Lineage.Empty else lineage(from, query))

  private def lineage(from: OfflinePlace, query: StoredQuery) = {
    val last = from.cuts.flatMap(_._1.cuts.last())
    val generation = last.fold(0L)(_.head.run.generation)
    recordsOf(from).lineage().and(Origin(from.location, generation, Some(query.begun)))
  }

  private def recordsOf(place: OfflinePlace) =
    new RootRecords(new Path(place.location), place.files)
}
