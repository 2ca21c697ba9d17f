package org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows

import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  RowCodec,
  SparkKeyOrder,
  TimestampFirstOrder,
  TimestampLastOrder
}

import io.cleancut.engine.memory.Memory

/** Keys with a time next to their columns, as in the state of joins of format 4. */
private[cleancut] object TimedKeys {

  def is(spec: KeyStateEncoderSpec): Boolean = spec match {
    case _: TimestampAsPostfixKeyStateEncoderSpec | _: TimestampAsPrefixKeyStateEncoderSpec => true
    case _                                                                                  => false
  }

  /** None for other keys. */
  def orderOf(
      spec: KeyStateEncoderSpec,
      memory: Memory,
      codec: => RowCodec
  ): Option[SparkKeyOrder] = spec match {
    case first: TimestampAsPrefixKeyStateEncoderSpec =>
      Some(new TimestampFirstOrder(first.keySchema, memory, codec))
    case last: TimestampAsPostfixKeyStateEncoderSpec =>
      Some(new TimestampLastOrder(last.keySchema, memory, codec))
    case _ => None
  }
}
