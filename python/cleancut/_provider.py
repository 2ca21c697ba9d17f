"""Cleancut's class names in Spark configurations and in checkpoints."""

PROVIDER_CLASS = "io.cleancut.CleancutStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
