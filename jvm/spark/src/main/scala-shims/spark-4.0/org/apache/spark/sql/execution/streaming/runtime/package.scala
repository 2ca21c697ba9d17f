package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.{Encoder, SparkSession}
import org.apache.spark.sql.execution.streaming

/** Aliases with the package names of Spark 4.1. On this line the classes are in `streaming`. */
package object runtime {
  type CompactibleFileStreamLog[A <: AnyRef] = streaming.CompactibleFileStreamLog[A]
  val CompactibleFileStreamLog: streaming.CompactibleFileStreamLog.type =
    streaming.CompactibleFileStreamLog
  type FileStreamSource = streaming.FileStreamSource
  val FileStreamSource: streaming.FileStreamSource.type = streaming.FileStreamSource
  type FileStreamSourceLog = streaming.FileStreamSourceLog
  val FileStreamSourceLog: streaming.FileStreamSourceLog.type = streaming.FileStreamSourceLog
  type IncrementalExecution = streaming.IncrementalExecution
  type MemoryStream[A] = streaming.MemoryStream[A]

  object MemoryStream {
    def apply[A](encoder: Encoder[A], session: SparkSession): MemoryStream[A] =
      streaming.MemoryStream(encoder, session.sqlContext)
  }

  type MicroBatchExecution = streaming.MicroBatchExecution
  type MicroBatchExecutionContext = streaming.MicroBatchExecutionContext
  type QueryExecutionThread = streaming.QueryExecutionThread
  type StreamExecution = streaming.StreamExecution
  val StreamExecution: streaming.StreamExecution.type = streaming.StreamExecution
  type StreamMetadata = streaming.StreamMetadata
  val StreamMetadata: streaming.StreamMetadata.type = streaming.StreamMetadata
  type StreamingQueryWrapper = streaming.StreamingQueryWrapper
  type StreamingRelation = streaming.StreamingRelation
  type WatermarkPropagator = streaming.WatermarkPropagator
  val WatermarkPropagator: streaming.WatermarkPropagator.type = streaming.WatermarkPropagator
}
