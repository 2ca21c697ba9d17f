package org.apache.spark.sql.execution.streaming.operators.stateful

import org.apache.spark.sql.execution.streaming

/** Where Spark 4.1 has what is directly in `streaming` on this line. */
package object flatmapgroupswithstate {
  type FlatMapGroupsWithStateExec = streaming.FlatMapGroupsWithStateExec
}
