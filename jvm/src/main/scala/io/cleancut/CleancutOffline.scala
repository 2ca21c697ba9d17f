package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.offline.{
  OfflineAct,
  OfflinePlan,
  OfflineSource
}

/**
 * Acts on the checkpoint of a stopped query, for callers outside of the JVM. Each has a plan, which
 * changes nothing, and is done by the same call with `apply`. What comes back is JSON. `fileSink`
 * is what Spark's own sink of files writes to, where that is the query's sink; else it is empty.
 *
 * All throw CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OFFLINE_REFUSED, and with `apply`
 * CLEANCUT_REWRITE_DIFFERS.
 */
object CleancutOffline {
  private val mapper = new ObjectMapper

  /** Makes state of Spark's own providers Cleancut's. */
  def adopt(session: SparkSession, location: String, fileSink: String, apply: Boolean): String =
    done(OfflineAct.Adopt, session, location, fileSink, apply)

  /** Makes Cleancut's state that of Spark's RocksDB provider. */
  def release(session: SparkSession, location: String, fileSink: String, apply: Boolean): String =
    done(OfflineAct.Release, session, location, fileSink, apply)

  /** Spreads state over another number of partitions. */
  def rescale(
      session: SparkSession,
      location: String,
      fileSink: String,
      partitions: Int,
      apply: Boolean
  ): String = done(OfflineAct.rescale(partitions), session, location, fileSink, apply)

  /**
   * Goes on from an earlier state.
   *
   * @param kind
   *   "epoch" or "time", of which `number` tells which, the milliseconds since 1970; "savepoint",
   *   of which `name` does; "undo" for what the last rollback has left behind
   * @param last
   *   the last epoch, where the query must not have gone on since; -1 if it may
   */
  def rollback(
      session: SparkSession,
      location: String,
      fileSink: String,
      kind: String,
      number: Long,
      name: String,
      last: Long,
      apply: Boolean
  ): String = {
    val source = kind match {
      case "epoch"     => OfflineSource.Epoch(number)
      case "time"      => OfflineSource.Time(number)
      case "savepoint" => OfflineSource.Savepoint(name)
      case "undo"      => OfflineSource.BeforeRollback
      case other       => throw new IllegalArgumentException(s"unknown kind of source: $other")
    }
    val act = OfflineAct.rollback(source, Some(last).filter(_ >= 0))
    done(act, session, location, fileSink, apply)
  }

  private def done(
      of: OfflineAct,
      session: SparkSession,
      location: String,
      fileSink: String,
      apply: Boolean
  ): String = {
    val act = of.copy(fileSink = Option.when(fileSink.nonEmpty)(fileSink))
    json(if (apply) act.run(session, location) else act.plan(session, location))
  }

  private def json(plan: OfflinePlan): String = {
    val node = mapper.createObjectNode().put("act", plan.act).put("location", plan.location)
    node.put("epoch", plan.epoch).put("source", plan.source).put("last", plan.last)
    node.put("providerBefore", plan.providerBefore).put("provider", plan.provider)
    node.put("partitionsBefore", plan.partitionsBefore).put("partitions", plan.partitions)
    val operators = node.putArray("operators")
    plan.operators.foreach { of =>
      val one = operators.addObject().put("operator", of.id).put("name", of.name)
      one.put("partitionsBefore", of.partitionsBefore).put("partitions", of.partitions)
      one.put("stores", of.stores)
      of.rows.foreach(one.put("rows", _))
    }
    val notes = node.putArray("notes")
    plan.notes.foreach(notes.add)
    mapper.writeValueAsString(node)
  }
}
