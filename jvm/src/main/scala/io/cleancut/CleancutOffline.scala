package io.cleancut

import com.fasterxml.jackson.databind.ObjectMapper

import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.cleancut.offline.{OfflineAct, OfflinePlan}

/**
 * Acts on the checkpoint of a stopped query, for callers outside of the JVM. Each has a plan, which
 * changes nothing, and is done by the same call with `apply`. What comes back is JSON.
 *
 * All throw CLEANCUT_CHECKPOINT_NOT_FOUND, CLEANCUT_OFFLINE_REFUSED, and with `apply`
 * CLEANCUT_REWRITE_DIFFERS.
 */
object CleancutOffline {
  private val mapper = new ObjectMapper

  /** Makes state of Spark's own providers Cleancut's. */
  def adopt(session: SparkSession, location: String, apply: Boolean): String =
    done(OfflineAct.Adopt, session, location, apply)

  /** Makes Cleancut's state that of Spark's RocksDB provider. */
  def release(session: SparkSession, location: String, apply: Boolean): String =
    done(OfflineAct.Release, session, location, apply)

  /** Spreads state over another number of partitions. */
  def rescale(session: SparkSession, location: String, partitions: Int, apply: Boolean): String =
    done(OfflineAct.rescale(partitions), session, location, apply)

  private def done(
      act: OfflineAct,
      session: SparkSession,
      location: String,
      apply: Boolean
  ): String = json(if (apply) act.run(session, location) else act.plan(session, location))

  private def json(plan: OfflinePlan): String = {
    val node = mapper.createObjectNode().put("act", plan.act).put("location", plan.location)
    node.put("epoch", plan.epoch)
    node.put("providerBefore", plan.providerBefore).put("provider", plan.provider)
    node.put("partitionsBefore", plan.partitionsBefore).put("partitions", plan.partitions)
    val operators = node.putArray("operators")
    plan.operators.foreach { of =>
      val one = operators.addObject().put("operator", of.id).put("name", of.name)
      one.put("partitionsBefore", of.partitionsBefore).put("partitions", of.partitions)
      one.put("stores", of.stores)
      of.rows.foreach(one.put("rows", _))
    }
    mapper.writeValueAsString(node)
  }
}
