package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.execution.streaming

/** Aliases with the package names of Spark 4.1. On this line the classes are in `streaming`. */
package object sinks {
  type FileStreamSink = streaming.FileStreamSink
  type FileStreamSinkLog = streaming.FileStreamSinkLog
  val FileStreamSinkLog: streaming.FileStreamSinkLog.type = streaming.FileStreamSinkLog
  type SinkFileStatus = streaming.SinkFileStatus
}
