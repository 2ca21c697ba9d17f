package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

/** Spark 4.2 asks no more of a store than its own `StateStore` says. */
private[cleancut] trait SparkStoreApi extends OwnOperations
