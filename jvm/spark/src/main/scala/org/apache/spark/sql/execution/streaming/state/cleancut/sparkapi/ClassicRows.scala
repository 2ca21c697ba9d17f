package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.apache.spark.sql.Dataset
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}

/** Rows as the driver itself has them, of what a caller from outside hands over. */
object ClassicRows {
  def of(rows: Dataset[_]): ClassicDataset[_] = rows match {
    case classic: ClassicDataset[_] => classic
    case other => throw new IllegalArgumentException(s"no rows of this driver: $other")
  }
}
