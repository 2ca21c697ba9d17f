package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

/** Spark 4.2 requires only the methods of its `StateStore`. */
private[cleancut] trait SparkStoreApi extends OwnOperations
