package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

/** Of what stores of Spark 4.0 lack, those of 4.1 have all that tests call. */
private[cleancut] trait SparkStores
