package io.cleancut.conf

/**
 * Access settings of an object store. Unset values are derived from the endpoint and the
 * environment.
 *
 * @param requestTimeoutMs
 *   timeout of one request with all its retries
 * @param encryption
 *   value of the key; a customer's key itself is no setting
 * @param accessPoint
 *   ARN instead of the bucket
 * @param trustedScheme
 *   scheme of a Hadoop file system
 * @param profile
 *   profile of the credentials; the credentials themselves are no setting
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
