package org.apache.spark.sql.execution.streaming.state.cleancut.history

import org.apache.spark.scheduler.SparkListenerEvent

/**
 * A run of a query has begun to commit its epochs by cuts.
 *
 * A history server of any release reads Spark's event log. So events have plain fields and a
 * version, and never change; new ones are added instead.
 *
 * @param version
 *   version of the form of `run`
 * @param location
 *   checkpoint location of the query
 * @param run
 *   [[RunFacts]] as JSON
 */
final case class CleancutRunBegun(version: Int, location: String, run: String)
    extends SparkListenerEvent

/**
 * An epoch is committed.
 *
 * @param version
 *   version of the form of `record`
 * @param location
 *   checkpoint location of the query
 * @param record
 *   an [[io.cleancut.history.EpochRecord]] as JSON
 */
final case class CleancutEpochCommitted(version: Int, location: String, epoch: Long, record: String)
    extends SparkListenerEvent
