package io.cleancut.conf

/**
 * How an object store is reached. What is not set follows from the endpoint and the environment.
 *
 * @param requestTimeoutMs
 *   for one request with all its repetitions
 * @param encryption
 *   as its key has it; a customer's key itself is no setting
 * @param accessPoint
 *   an ARN in place of the bucket
 * @param trustedScheme
 *   of a file system of Hadoop
 * @param profile
 *   whose credentials are taken; they themselves are no setting
 */
final case class ObjectStoreSettings(
    dialect: Option[String],
    endpoint: Option[String],
    pathStyle: Option[Boolean],
    region: Option[String],
    requestTimeoutMs: Long,
    encryption: Option[String],
    requesterPays: Boolean,
    accessPoint: Option[String],
    maxConnections: Int,
    trustedScheme: Option[String],
    profile: Option[String]
)

object ObjectStoreSettings {
  val Default: ObjectStoreSettings = Settings.Default.objectStore
}
