package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

import org.apache.spark.internal.config.ConfigEntry

/** Configuration that an entry of the offset log records. */
private[cleancut] object RecordedConf {
  def get(recorded: EpochLogs.Recorded, entry: ConfigEntry[_]): Option[String] =
    recorded.conf.get(entry.key)
}
