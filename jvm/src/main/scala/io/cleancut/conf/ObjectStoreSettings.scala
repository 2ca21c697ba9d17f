package io.cleancut.conf

/**
 * How an object store is reached. What is not set follows from the endpoint and the environment.
 *
 * @param requestTimeoutMs
 *   for one request with all its repetitions
 */
final case class ObjectStoreSettings(
    dialect: Option[String],
    endpoint: Option[String],
    pathStyle: Option[Boolean],
    region: Option[String],
    requestTimeoutMs: Long
)

object ObjectStoreSettings {
  val Default: ObjectStoreSettings = Settings.Default.objectStore
}
