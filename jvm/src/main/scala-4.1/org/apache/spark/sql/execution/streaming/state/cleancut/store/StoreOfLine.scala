package org.apache.spark.sql.execution.streaming.state.cleancut.store

private[cleancut] trait StoreOfLine extends OwnOperations with LaterOperations
