package io.cleancut.objectstore

import software.amazon.awssdk.services.s3.S3Client

import io.cleancut.base.Clock
import io.cleancut.conf.ObjectStoreSettings
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.s3.{Dialect, RenewedCredentials, RetryPolicy, S3Connection, S3Store}
import io.cleancut.testkit.S3Server

/** Stores as tests open them; the credentials lie where the SDK's default chain finds them. */
object S3TestStore {

  /** Long enough for a busy machine, short enough that a test which hangs fails. */
  val Policy: RetryPolicy = RetryPolicy(deadlineMs = 60000)

  def settings(endpoint: String, dialect: Dialect): ObjectStoreSettings =
    ObjectStoreSettings.Default.copy(
      endpoint = Some(endpoint),
      dialect = Some(dialect.name),
      // The dialect of AWS has none of its own, nor buckets in the path.
      region = Some(dialect.region.getOrElse("us-east-1")),
      pathStyle = Some(true)
    )

  def connection(endpoint: String, dialect: Dialect): S3Connection =
    S3Connection.of(settings(endpoint, dialect), Map.empty)

  /** What a store talks through. */
  def client(endpoint: String, dialect: Dialect): S3Client =
    connection(endpoint, dialect).client("", RenewedCredentials.ofDefaultChain(Clock.System))

  def open(
      endpoint: String,
      location: String,
      dialect: Dialect = Dialect.Generic,
      policy: RetryPolicy = Policy,
      stallMs: Long = 20000
  ): S3Store =
    new S3Store(
      BucketPath.parse(location),
      connection(endpoint, dialect).copy(stallMs = stallMs),
      policy,
      Clock.System
    )

  /** The cuts of the query whose checkpoint lies there in the server's bucket. */
  def archive(endpoint: String, query: String): CutArchive = {
    val root = s"s3://${S3Server.Bucket}/$query/cleancut"
    new CutArchive(open(endpoint, root), Clock.System)
  }
}
