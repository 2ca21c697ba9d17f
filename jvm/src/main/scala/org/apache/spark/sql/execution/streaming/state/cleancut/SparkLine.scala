package org.apache.spark.sql.execution.streaming.state.cleancut

import org.apache.spark.sql.execution.streaming.state.{
  StateStoreCustomMetric,
  StateStoreCustomSizeMetric
}

/** What is called differently in the lines of Spark that one jar runs on: 4.2 and 4.3. */
private[cleancut] object SparkLine {
  private val SizeMetric = classOf[StateStoreCustomSizeMetric].getConstructors.head

  /**
   * 4.3 added a parameter, `isSnapshot`, which is off by default and which 4.2 knows nothing of.
   */
  def sizeMetric(name: String, desc: String): StateStoreCustomMetric = {
    val added = Seq.fill(SizeMetric.getParameterCount - 2)(Boolean.box(false))
    SizeMetric.newInstance((Seq(name, desc) ++ added): _*).asInstanceOf[StateStoreCustomMetric]
  }
}
