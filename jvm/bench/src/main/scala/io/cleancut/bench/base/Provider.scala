package io.cleancut.bench.base

/**
 * A provider and its settings, as they are compared.
 *
 * @param classes
 *   where its classes lie, if not on the class path of this process
 */
final case class Provider(
    name: String,
    className: String,
    settings: Map[String, String],
    classes: Option[String] = None
) {

  /** What a session needs to run on it. */
  def confs: Map[String, String] = settings + (Provider.ClassKey -> className)
}

object Provider {
  private val FilesKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val ClassKey = "spark.sql.streaming.stateStore.providerClass"
  private val State = "org.apache.spark.sql.execution.streaming.state"
  private val RocksConf = "spark.sql.streaming.stateStore.rocksdb"

  val Cleancut: Provider =
    Provider("Cleancut", "io.cleancut.CleancutStateStoreProvider", Map.empty)

  /** As `cleancut.configure` sets it up. */
  val Configured: Provider =
    Cleancut.copy(settings = Map(FilesKey -> "io.cleancut.CleancutCheckpointFileManager"))

  /** Another build of this provider, such as the one before a change. */
  def before(classes: String): Provider =
    Cleancut.copy(name = "before", classes = Some(classes))

  val Hdfs: Provider = Provider("HDFS-backed", s"$State.HDFSBackedStateStoreProvider", Map.empty)

  /** RocksDB in all four settings: with a changelog or whole files, with row counts or without. */
  val Rocks: Seq[Provider] = for {
    changelog <- Seq(true, false)
    tracking <- Seq(true, false)
  } yield rocks(changelog, tracking)

  /** RocksDB in the settings that are quickest in a whole query. */
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
