package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import scala.annotation.unused

import org.apache.spark.sql.execution.streaming.state.KeyStateEncoderSpec
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  RowCodec,
  SparkKeyOrder
}

import io.cleancut.engine.memory.Memory

/** Keys with a time next to their columns, which no operator of these Spark versions has. */
private[cleancut] object TimedKeys {
  def is(@unused spec: KeyStateEncoderSpec): Boolean = false

  def orderOf(
      @unused spec: KeyStateEncoderSpec,
      @unused memory: Memory,
      @unused codec: => RowCodec
  ): Option[SparkKeyOrder] = None
}
