package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.SinkRecord

import io.cleancut.format.{SinkEpochs, StoredSinkEpochs}

/** The record of published epochs, of the checkpoint that an operation reads and writes. */
private[operations] object CarriedSinks {

  /** The published epochs that count after an epoch of a query. */
  def of(from: OfflinePlace, query: StoredQuery): SinkEpochs =
    query.cutIn(from).fold(uncut(from, query))(_.sinks)

  private def uncut(from: OfflinePlace, query: StoredQuery): SinkEpochs =
    recordOf(from).read().fold(SinkEpochs.Empty) { record =>
      val log = from.logs.offsetLog
      val later = for {
        number <- record.until + 1 to query.epoch
        entry <- log.get(number)
        if OfflineEpoch.isOne(entry)
        source <- OfflineEpoch.sourceOf(entry)
      } yield number -> source
      record.sinks.after(later).upTo(query.epoch)
    }

  /** Writes it to a new checkpoint without cuts. */
  def write(target: OfflineTarget, query: StoredQuery, sinks: SinkEpochs): Unit =
    if (sinks.ranges.nonEmpty) recordOf(target.place).write(StoredSinkEpochs(query.epoch, sinks))

  private def recordOf(place: OfflinePlace) = new SinkRecord(new Path(place.location), place.files)
}
