package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import org.apache.spark.sql.execution.SQLExecution
import org.apache.spark.sql.execution.streaming.Sink
import org.apache.spark.sql.execution.streaming.operators.stateful.StateStoreWriter
import org.apache.spark.sql.execution.streaming.runtime.IncrementalExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.{RunningQueries, SparkCalls}

import io.cleancut.base.{ClassNames, StoreId}
import io.cleancut.protocol.EpochPlan

/** The plan of an epoch in Spark, for the thread of its query. */
final private[cleancut] class SparkEpochPlan(execution: IncrementalExecution) extends EpochPlan {

  /**
   * Partitions according to the plan below each operator: Spark's metadata say 200 for an
   * aggregation without keys, which has one.
   */
  override lazy val stores: Set[StoreId] = {
    val stores = for {
      operator <- execution.executedPlan.collect { case writer: StateStoreWriter => writer }
      info <- operator.stateInfo.toSeq
      partition <- 0 until operator.children.map(_.outputPartitioning.numPartitions).max
      name <- SparkCalls.storeNames(operator)
    } yield StoreId(info.operatorId, partition, name)
    stores.toSet
  }

  override def run(): Unit = {
    SQLExecution.withNewExecutionId(execution)(execution.toRdd.count())
    ()
  }
}

private[cleancut] object SparkEpochPlan {

  /**
   * None if the sink itself runs tasks with the plan, so that it cannot skip any and another run
   * would write again; and if Spark does not expose the plan, or another provider keeps the state.
   */
  def of(runId: String, epoch: Long): Option[EpochPlan] = for {
    query <- RunningQueries.byRun(runId)
    if query.sink.isInstanceOf[Sink]
    execution <- Option(query.lastExecution)
    if execution.currentBatchId == epoch && isOurs(execution)
  } yield new SparkEpochPlan(execution)

  private def isOurs(execution: IncrementalExecution): Boolean =
    execution.sparkSession.sessionState.conf.stateStoreProviderClass ==
      ClassNames.StateStoreProvider
}
