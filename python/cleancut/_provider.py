"""What Cleancut is called in a configuration of Spark, and in checkpoints that note it."""

PROVIDER_CLASS = "io.cleancut.CleancutStateStoreProvider"
PROVIDER_KEY = "spark.sql.streaming.stateStore.providerClass"
