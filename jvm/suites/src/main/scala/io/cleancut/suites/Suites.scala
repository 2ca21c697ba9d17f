package io.cleancut.suites

import org.scalatest.Suite

import org.apache.spark.sql.execution.datasources.v2.state
import org.apache.spark.sql.execution.streaming.state.StateStoreProvider
import org.apache.spark.sql.execution.{streaming => execution}
import org.apache.spark.sql.streaming

import io.cleancut.CleancutStateStoreProvider

/**
 * Spark's suites that run here, under their names in Spark. Some run again with the checkpoint
 * format that gives each version of a store an ID.
 *
 * Suites that read files of Spark's source tree cannot run.
 */
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
    classOf[StateDataSourceReadSuite],
    classOf[StateDataSourceNegativeTestSuite],
    classOf[StateDataSourceSQLConfigSuite],
    classOf[StreamingAggregationDistributionSuite],
    classOf[StreamingDeduplicationDistributionSuite],
    classOf[FlatMapGroupsWithStateDistributionSuite],
    classOf[StreamingSessionWindowDistributionSuite],
    classOf[StreamSuite],
    classOf[StreamingQuerySuite],
    classOf[TriggerAvailableNowSuite],
    classOf[StateStoreCoordinatorStreamingSuite],
    classOf[StateStoreInstanceMetricSuite],
    classOf[ForeachBatchSinkSuite],
    classOf[MicroBatchExecutionSuite],
    classOf[StreamingInnerJoinWithVCFSuite],
    classOf[StreamingInnerJoinV4Suite],
    classOf[StreamingOuterJoinWithVCFSuite],
    classOf[StreamingOuterJoinV4Suite],
    classOf[StreamingFullOuterJoinWithVCFSuite],
    classOf[StreamingFullOuterJoinV4Suite],
    classOf[StreamingLeftSemiJoinWithVCFSuite],
    classOf[StreamingLeftSemiJoinV4Suite],
    classOf[TransformWithListStateSuite],
    classOf[TransformWithListStateTTLSuite],
    classOf[TransformWithMapStateSuite],
    classOf[TransformWithMapStateTTLSuite],
    classOf[TransformWithStateAvroSuite],
    classOf[TransformWithStateChainingSuite],
    classOf[TransformWithStateClusterSuite],
    classOf[TransformWithStateInitialStateSuite],
    classOf[TransformWithStateUnsafeRowSuite],
    classOf[TransformWithStateValidationSuite],
    classOf[TransformWithValueStateTTLSuite],
    classOf[StateDataSourceTransformWithStateSuite],
    classOf[StateDataSourceChangeDataReaderSuite],
    classOf[StateStoreContractSuite],
    InPlaceOfRocksDb.load("RocksDBStateStoreSuite"),
    InPlaceOfRocksDb.load("RocksDBTimestampEncoderOperationsSuite"),
    classOf[StreamingSessionWindowStateManagerSuite],
    classOf[StreamingQueryOptimizationCorrectnessSuite],
    classOf[ValueStateSuite],
    classOf[ListStateSuite],
    classOf[MapStateSuite],
    classOf[TimerSuite],
    classOf[StatefulProcessorHandleSuite],
    classOf[SymmetricHashJoinStateManagerSuite],
    classOf[SymmetricHashJoinStateManagerEventTimeInKeySuite],
    classOf[SymmetricHashJoinStateManagerEventTimeInValueSuite],
    classOf[StreamingAggregationCheckpointFormat2Suite],
    classOf[StreamingDeduplicationCheckpointFormat2Suite],
    classOf[FlatMapGroupsWithStateCheckpointFormat2Suite],
    classOf[StreamingSessionWindowCheckpointFormat2Suite],
    classOf[MultiStatefulOperatorsCheckpointFormat2Suite],
    classOf[StreamingInnerJoinV4CheckpointFormat2Suite],
    classOf[TransformWithStateUnsafeRowCheckpointFormat2Suite],
    classOf[StateDataSourceReadCheckpointFormat2Suite],
    classOf[StateDataSourceChangeDataReaderCheckpointFormat2Suite]
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

class StateDataSourceNegativeTestSuite
    extends state.StateDataSourceNegativeTestSuite
    with OnCleancut

class StateDataSourceSQLConfigSuite extends state.StateDataSourceSQLConfigSuite with OnCleancut

class StreamingAggregationDistributionSuite
    extends streaming.StreamingAggregationDistributionSuite
    with OnCleancut

class StreamingDeduplicationDistributionSuite
    extends streaming.StreamingDeduplicationDistributionSuite
    with OnCleancut

class FlatMapGroupsWithStateDistributionSuite
    extends streaming.FlatMapGroupsWithStateDistributionSuite
    with OnCleancut

class StreamingSessionWindowDistributionSuite
    extends streaming.StreamingSessionWindowDistributionSuite
    with OnCleancut

class StreamSuite extends streaming.StreamSuite with OnCleancut

class StreamingQuerySuite extends streaming.StreamingQuerySuite with OnCleancut

class TriggerAvailableNowSuite extends streaming.TriggerAvailableNowSuite with OnCleancut

class StateStoreCoordinatorStreamingSuite
    extends execution.state.StateStoreCoordinatorStreamingSuite
    with OnCleancut

class StateStoreInstanceMetricSuite
    extends execution.state.StateStoreInstanceMetricSuite
    with OnCleancut

class ForeachBatchSinkSuite extends execution.sources.ForeachBatchSinkSuite with OnCleancut

class MicroBatchExecutionSuite extends execution.MicroBatchExecutionSuite with OnCleancut

class StreamingInnerJoinWithVCFSuite
    extends streaming.StreamingInnerJoinWithVCFSuite
    with OnCleancut

class StreamingInnerJoinV4Suite extends streaming.StreamingInnerJoinV4Suite with OnCleancut

class StreamingOuterJoinWithVCFSuite
    extends streaming.StreamingOuterJoinWithVCFSuite
    with OnCleancut

class StreamingOuterJoinV4Suite extends streaming.StreamingOuterJoinV4Suite with OnCleancut

class StreamingFullOuterJoinWithVCFSuite
    extends streaming.StreamingFullOuterJoinWithVCFSuite
    with OnCleancut

class StreamingFullOuterJoinV4Suite extends streaming.StreamingFullOuterJoinV4Suite with OnCleancut

class StreamingLeftSemiJoinWithVCFSuite
    extends streaming.StreamingLeftSemiJoinWithVCFSuite
    with OnCleancut

class StreamingLeftSemiJoinV4Suite extends streaming.StreamingLeftSemiJoinV4Suite with OnCleancut

class TransformWithListStateSuite extends streaming.TransformWithListStateSuite with OnCleancut

class TransformWithListStateTTLSuite
    extends streaming.TransformWithListStateTTLSuite
    with OnCleancut

class TransformWithMapStateSuite extends streaming.TransformWithMapStateSuite with OnCleancut

class TransformWithMapStateTTLSuite extends streaming.TransformWithMapStateTTLSuite with OnCleancut

class TransformWithStateAvroSuite extends streaming.TransformWithStateAvroSuite with OnCleancut

class TransformWithStateChainingSuite
    extends streaming.TransformWithStateChainingSuite
    with OnCleancut

class TransformWithStateClusterSuite
    extends streaming.TransformWithStateClusterSuite
    with OnCleancut

class TransformWithStateInitialStateSuite
    extends streaming.TransformWithStateInitialStateSuite
    with OnCleancut

class TransformWithStateUnsafeRowSuite
    extends streaming.TransformWithStateUnsafeRowSuite
    with OnCleancut

class TransformWithStateValidationSuite
    extends streaming.TransformWithStateValidationSuite
    with OnCleancut

class TransformWithValueStateTTLSuite
    extends streaming.TransformWithValueStateTTLSuite
    with OnCleancut

class StateDataSourceTransformWithStateSuite
    extends state.StateDataSourceTransformWithStateSuite
    with AllChanges

class StateDataSourceChangeDataReaderSuite
    extends state.StateDataSourceChangeDataReaderSuite
    with AllChanges {
  override protected def newStateStoreProvider(): StateStoreProvider =
    new CleancutStateStoreProvider
}

class StreamingSessionWindowStateManagerSuite
    extends execution.state.StreamingSessionWindowStateManagerSuite
    with OnCleancut

class StreamingQueryOptimizationCorrectnessSuite
    extends streaming.StreamingQueryOptimizationCorrectnessSuite
    with OnCleancut

class ValueStateSuite extends execution.state.ValueStateSuite with StateVariables

class ListStateSuite extends execution.state.ListStateSuite with StateVariables

class MapStateSuite extends execution.state.MapStateSuite with StateVariables

class TimerSuite extends execution.state.TimerSuite with StateVariables

class StatefulProcessorHandleSuite
    extends execution.state.StatefulProcessorHandleSuite
    with StateVariables

class SymmetricHashJoinStateManagerSuite
    extends execution.state.SymmetricHashJoinStateManagerSuite
    with OnCleancut

class SymmetricHashJoinStateManagerEventTimeInKeySuite
    extends execution.state.SymmetricHashJoinStateManagerEventTimeInKeySuite
    with OnCleancut

class SymmetricHashJoinStateManagerEventTimeInValueSuite
    extends execution.state.SymmetricHashJoinStateManagerEventTimeInValueSuite
    with OnCleancut

class StreamingAggregationCheckpointFormat2Suite
    extends StreamingAggregationSuite
    with CheckpointFormat2

class StreamingDeduplicationCheckpointFormat2Suite
    extends StreamingDeduplicationSuite
    with CheckpointFormat2

class FlatMapGroupsWithStateCheckpointFormat2Suite
    extends FlatMapGroupsWithStateSuite
    with CheckpointFormat2

class StreamingSessionWindowCheckpointFormat2Suite
    extends StreamingSessionWindowSuite
    with CheckpointFormat2

class MultiStatefulOperatorsCheckpointFormat2Suite
    extends MultiStatefulOperatorsSuite
    with CheckpointFormat2

class StreamingInnerJoinV4CheckpointFormat2Suite
    extends StreamingInnerJoinV4Suite
    with CheckpointFormat2

class TransformWithStateUnsafeRowCheckpointFormat2Suite
    extends TransformWithStateUnsafeRowSuite
    with CheckpointFormat2

class StateDataSourceReadCheckpointFormat2Suite
    extends StateDataSourceReadSuite
    with CheckpointFormat2

class StateDataSourceChangeDataReaderCheckpointFormat2Suite
    extends StateDataSourceChangeDataReaderSuite
    with CheckpointFormat2
