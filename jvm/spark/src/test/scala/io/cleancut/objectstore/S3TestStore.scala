package io.cleancut.objectstore

import software.amazon.awssdk.services.s3.S3Client

import io.cleancut.base.Clock
import io.cleancut.conf.ObjectStoreSettings
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.s3.{Dialect, RenewedCredentials, RetryPolicy, S3Connection, S3Store}
import io.cleancut.testkit.S3Server

/** Opens S3 stores for tests; the SDK's default chain finds the credentials. */
object S3TestStore {

  /** Long enough for a busy machine, short enough to fail a test that hangs. */
  val Policy: RetryPolicy = RetryPolicy(deadlineMs = 60000)

  def settings(endpoint: String, dialect: Dialect): ObjectStoreSettings =
    ObjectStoreSettings.Default.copy(
      endpoint = Some(endpoint),
      dialect = Some(dialect.name),
      // The AWS dialect has no default region and no path style.
      region = Some(dialect.region.getOrElse("us-east-1")),
      pathStyle = Some(true)
    )

  def connection(endpoint: String, dialect: Dialect): S3Connection =
    S3Connection.of(settings(endpoint, dialect), Map.empty)

  /** The client of a store. */
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

  /** The cuts of a query in the server's bucket. */
  def archive(endpoint: String, query: String): CutArchive = {
    val root = s"s3://${S3Server.Bucket}/$query/cleancut"
    new CutArchive(open(endpoint, root), Clock.System)
  }
}
