package io.cleancut

import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.LogStateStoreProvider

/**
 * Cleancut's state store, for `spark.sql.streaming.stateStore.providerClass`. Spark records this
 * name in every checkpoint, so it must never change.
 */
class CleancutStateStoreProvider extends LogStateStoreProvider
