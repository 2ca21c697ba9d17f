package io.cleancut.base

/**
 * Names of the classes that Spark, Hadoop and users load by name. Lower layers compare them with
 * settings without depending on these classes.
 */
object ClassNames {
  val StateStoreProvider = "io.cleancut.CleancutStateStoreProvider"
  val CheckpointFileManager = "io.cleancut.CleancutCheckpointFileManager"
  val FileSystem = "io.cleancut.CleancutFileSystem"
}
