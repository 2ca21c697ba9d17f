package io.cleancut.suites

import org.scalatest.Suite

import org.apache.spark.sql.execution.datasources.v2.state
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider
import org.apache.spark.sql.streaming

import io.cleancut.CleancutStateStoreProvider

/** Spark's suites that run here, under the names that they have in Spark. */
object Suites {

  val all: Seq[Class[_ <: Suite]] = Seq(
    classOf[StreamingAggregationSuite],
    classOf[StreamingDeduplicationSuite],
    classOf[StreamingDeduplicationWithinWatermarkSuite],
    classOf[StreamingInnerJoinWithoutVCFSuite],
    classOf[StreamingOuterJoinWithoutVCFSuite],
    classOf[StreamingFullOuterJoinWithoutVCFSuite],
    classOf[StreamingLeftSemiJoinWithoutVCFSuite],
    classOf[StreamingSessionWindowSuite],
    classOf[FlatMapGroupsWithStateSuite],
    classOf[FlatMapGroupsWithStateWithInitialStateSuite],
    classOf[MultiStatefulOperatorsSuite],
    classOf[EventTimeWatermarkSuite],
    classOf[StateDataSourceReadSuite]
  )
}

class StreamingAggregationSuite extends streaming.StreamingAggregationSuite with OnCleancut

class StreamingDeduplicationSuite extends streaming.StreamingDeduplicationSuite with OnCleancut

class StreamingDeduplicationWithinWatermarkSuite
    extends streaming.StreamingDeduplicationWithinWatermarkSuite
    with OnCleancut

class StreamingInnerJoinWithoutVCFSuite
    extends streaming.StreamingInnerJoinWithoutVCFSuite
    with OnCleancut

class StreamingOuterJoinWithoutVCFSuite
    extends streaming.StreamingOuterJoinWithoutVCFSuite
    with OnCleancut

class StreamingFullOuterJoinWithoutVCFSuite
    extends streaming.StreamingFullOuterJoinWithoutVCFSuite
    with OnCleancut

class StreamingLeftSemiJoinWithoutVCFSuite
    extends streaming.StreamingLeftSemiJoinWithoutVCFSuite
    with OnCleancut

class StreamingSessionWindowSuite extends streaming.StreamingSessionWindowSuite with OnCleancut

class FlatMapGroupsWithStateSuite extends streaming.FlatMapGroupsWithStateSuite with OnCleancut

class FlatMapGroupsWithStateWithInitialStateSuite
    extends streaming.FlatMapGroupsWithStateWithInitialStateSuite
    with OnCleancut

class MultiStatefulOperatorsSuite extends streaming.MultiStatefulOperatorsSuite with OnCleancut

class EventTimeWatermarkSuite extends streaming.EventTimeWatermarkSuite with OnCleancut

class StateDataSourceReadSuite extends state.StateDataSourceReadSuite with OnCleancut {
  override protected def newStateStoreProvider(): StateStoreProvider =
    new CleancutStateStoreProvider
}
