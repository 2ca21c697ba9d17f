package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

private[cleancut] trait SparkStoreApi extends OwnOperations with UncalledOperations
