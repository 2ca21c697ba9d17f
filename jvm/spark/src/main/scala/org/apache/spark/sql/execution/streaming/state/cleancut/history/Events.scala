package org.apache.spark.sql.execution.streaming.state.cleancut.history

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * A run of a query has begun to commit its epochs by cuts.
 *
 * What Spark writes of an event to its event log is read by whatever release a history server has:
 * so these have plain fields and a version, and are never changed, but followed by others.
 *
 * @param version
 *   of the form of `run`
 * @param location
 *   of the query's checkpoint
 * @param run
 *   [[RunFacts]] as JSON
 */
final case class CleancutRunBegun(version: Int, location: String, run: String)
    extends SparkListenerEvent

/**
 * An epoch is committed.
 *
 * @param version
 *   of the form of `record`
 * @param location
 *   of the query's checkpoint
 * @param record
 *   an [[io.cleancut.history.EpochRecord]] as JSON
 */
final case class CleancutEpochCommitted(version: Int, location: String, epoch: Long, record: String)
    extends SparkListenerEvent
