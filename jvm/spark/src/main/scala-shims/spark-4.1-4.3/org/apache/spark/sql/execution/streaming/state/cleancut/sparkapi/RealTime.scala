package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.execution.streaming.RealTimeTrigger
import org.apache.spark.sql.streaming.Trigger

/** Real-time mode, which passes each row to the sink immediately. */
private[cleancut] object RealTime {
  def is(trigger: Trigger): Boolean = trigger.isInstanceOf[RealTimeTrigger]
}
