package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}

/** The classic DataFrame of the driver, for rows passed by external callers. */
object ClassicRows {
  def of(rows: Dataset[_]): ClassicDataset[_] = rows match {
    case classic: ClassicDataset[_] => classic
    case other => throw new IllegalArgumentException(s"not rows of this driver: $other")
  }
}
