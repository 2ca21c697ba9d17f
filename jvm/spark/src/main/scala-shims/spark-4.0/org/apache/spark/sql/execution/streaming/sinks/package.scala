package org.apache.spark.sql.execution.streaming

import org.apache.spark.sql.execution.streaming

/** Where Spark 4.1 has what is directly in `streaming` on this line. */
package object sinks {
  type FileStreamSinkLog = streaming.FileStreamSinkLog
  val FileStreamSinkLog: streaming.FileStreamSinkLog.type = streaming.FileStreamSinkLog
  type SinkFileStatus = streaming.SinkFileStatus
}
