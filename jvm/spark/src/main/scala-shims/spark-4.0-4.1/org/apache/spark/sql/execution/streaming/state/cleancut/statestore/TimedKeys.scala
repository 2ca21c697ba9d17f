package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import scala.annotation.unused

import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec

import io.cleancut.engine.Memory

/** Keys with a time beside their columns, which no operator of this line of Spark has. */
private[cleancut] object TimedKeys {
  def is(@unused spec: KeyStateEncoderSpec): Boolean = false

  def orderOf(
      @unused spec: KeyStateEncoderSpec,
      @unused memory: Memory,
      @unused codec: => RowCodec
  ): Option[SparkKeyOrder] = None
}
