package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

/** Empty, because stores of Spark 4.1 have all methods that tests call. */
private[cleancut] trait SparkStores
