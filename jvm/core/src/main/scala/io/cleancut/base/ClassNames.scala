package io.cleancut.base

/**
 * Names of the classes that Spark, Hadoop and users load by name. What is below the entry points
 * compares them with settings, and depends on none of them.
 */
object ClassNames {
  val StateStoreProvider = "io.cleancut.CleancutStateStoreProvider"
  val CheckpointFileManager = "io.cleancut.CleancutCheckpointFileManager"
  val FileSystem = "io.cleancut.CleancutFileSystem"
}
