package io.cleancut.s3a

import org.apache.spark.sql.DataFrame

import io.cleancut.CleancutSeal

/**
 * A state store with its checkpoint location on an S3 server.
 *
 * @param scheme
 *   scheme of the checkpoint location
 * @param confs
 *   Spark configuration for the server at an endpoint
 * @param sink
 *   processes the rows of an epoch
 */
final case class Subject(
    name: String,
    scheme: String,
    confs: String => Map[String, String],
    sink: (DataFrame, Long) => Unit
)

object Subject {
  private val State = "spark.sql.streaming.stateStore"

  val All: Seq[Subject] = Seq(
    Subject("rocksdb", "s3a", s3a, reads),
    Subject("cleancut", "s3", cleancut, reads),
    Subject("sealing", "s3", cleancut, seals),
    Subject("pipelined", "s3", pipelined, seals)
  )

  def named(name: String): Subject = All.find(_.name == name).get

  private def reads: (DataFrame, Long) => Unit = (batch, _) => {
    batch.collect()
    ()
  }

  private def seals: (DataFrame, Long) => Unit = (batch, epoch) => {
    val rows = CleancutSeal.seal(batch, epoch)
    rows.collect()
    rows.unpersist()
    ()
  }

  // The SDK reads the credentials from system properties.
  private def cleancut(endpoint: String): Map[String, String] = Map(
    s"$State.providerClass" -> "io.cleancut.CleancutStateStoreProvider",
    "spark.sql.streaming.checkpointFileManagerClass" -> "io.cleancut.CleancutCheckpointFileManager",
    "spark.sql.extensions" -> "io.cleancut.CleancutExtensions",
    s"$State.cleancut.s3.endpoint" -> endpoint
  )

  private def pipelined(endpoint: String): Map[String, String] =
    cleancut(endpoint) + (s"$State.cleancut.pipelinedCuts" -> "true")

  private def s3a(endpoint: String): Map[String, String] = Map(
    s"$State.providerClass" ->
      "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    s"$State.rocksdb.changelogCheckpointing.enabled" -> "true",
    "spark.hadoop.fs.s3a.endpoint" -> endpoint,
    "spark.hadoop.fs.s3a.endpoint.region" -> "us-east-1",
    "spark.hadoop.fs.s3a.access.key" -> VersityServer.AccessKey,
    "spark.hadoop.fs.s3a.secret.key" -> VersityServer.SecretKey,
    "spark.hadoop.fs.s3a.path.style.access" -> "true"
  )
}
