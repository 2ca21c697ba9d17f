package io.cleancut.bench.base

/**
 * A provider with its settings in a comparison.
 *
 * @param classes
 *   directory of its classes, if they are not on the class path of this process
 */
final case class Provider(
    name: String,
    className: String,
    settings: Map[String, String],
    classes: Option[String] = None
) {

  /** The configuration of a session that uses it. */
  def confs: Map[String, String] = settings + (Provider.ClassKey -> className)
}

object Provider {
  private val FilesKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val ClassKey = "spark.sql.streaming.stateStore.providerClass"
  private val State = "org.apache.spark.sql.execution.streaming.state"
  private val RocksConf = "spark.sql.streaming.stateStore.rocksdb"

  val Cleancut: Provider =
    Provider("Cleancut", "io.cleancut.CleancutStateStoreProvider", Map.empty)

  /** The provider as `cleancut.configure` sets it up. */
  val Configured: Provider =
    Cleancut.copy(settings = Map(FilesKey -> "io.cleancut.CleancutCheckpointFileManager"))

  /** Another build of this provider, for example before a change. */
  def before(classes: String): Provider =
    Cleancut.copy(name = "before", classes = Some(classes))

  val Hdfs: Provider = Provider("HDFS-backed", s"$State.HDFSBackedStateStoreProvider", Map.empty)

  /**
   * RocksDB in all four settings: with changelogs or full snapshots, with or without row counts.
   */
  val Rocks: Seq[Provider] = for {
    changelog <- Seq(true, false)
    tracking <- Seq(true, false)
  } yield rocks(changelog, tracking)

  /** RocksDB in the settings that are fastest in a complete query. */
  val RocksForQueries: Seq[Provider] = Rocks.filter(!_.name.contains("no changelog"))

  private def rocks(changelog: Boolean, tracking: Boolean): Provider = Provider(
    s"RocksDB, ${if (changelog) "changelog" else "no changelog"}" +
      (if (tracking) "" else ", no row count"),
    s"$State.RocksDBStateStoreProvider",
    Map(
      s"$RocksConf.changelogCheckpointing.enabled" -> changelog.toString,
      s"$RocksConf.trackTotalNumberOfRows" -> tracking.toString
    )
  )
}
