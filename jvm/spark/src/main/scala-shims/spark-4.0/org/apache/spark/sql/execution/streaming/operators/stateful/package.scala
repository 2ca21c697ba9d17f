package org.apache.spark.sql.execution.streaming.operators

import org.apache.spark.sql.execution.streaming

/** Aliases with the package names of Spark 4.1. On this line the classes are in `streaming`. */
package object stateful {
  type BaseStreamingDeduplicateExec = streaming.BaseStreamingDeduplicateExec
  type EventTimeWatermarkExec = streaming.EventTimeWatermarkExec
  type SessionWindowStateStoreRestoreExec = streaming.SessionWindowStateStoreRestoreExec
  type SessionWindowStateStoreSaveExec = streaming.SessionWindowStateStoreSaveExec
  type StateStoreReader = streaming.StateStoreReader
  type StateStoreRestoreExec = streaming.StateStoreRestoreExec
  val StateStoreRestoreExec: streaming.StateStoreRestoreExec.type = streaming.StateStoreRestoreExec
  type StateStoreSaveExec = streaming.StateStoreSaveExec
  val StateStoreSaveExec: streaming.StateStoreSaveExec.type = streaming.StateStoreSaveExec
  type StateStoreWriter = streaming.StateStoreWriter
  type StatefulOpStateStoreCheckpointInfo = streaming.StatefulOpStateStoreCheckpointInfo
  type StatefulOperator = streaming.StatefulOperator
  type StatefulOperatorStateInfo = streaming.StatefulOperatorStateInfo
  type StreamingDeduplicateExec = streaming.StreamingDeduplicateExec
  type StreamingDeduplicateWithinWatermarkExec = streaming.StreamingDeduplicateWithinWatermarkExec
  type WatermarkSupport = streaming.WatermarkSupport
  val WatermarkSupport: streaming.WatermarkSupport.type = streaming.WatermarkSupport
}
