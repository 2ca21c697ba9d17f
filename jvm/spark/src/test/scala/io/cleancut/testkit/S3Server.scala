package io.cleancut.testkit

import java.nio.file.Path

/**
 * An S3 server with one bucket, in a separate process on loopback.
 *
 * @param directory
 *   directory of its files, which is deleted with it
 * @param path
 *   path of the endpoint after the port
 */
final class S3Server(
    server: ServerProcess,
    directory: Path,
    val path: String = "",
    scheme: String = "http"
) extends AutoCloseable {
  def port: Int = server.port

  def endpoint: String = s"$scheme://127.0.0.1:$port$path"

  override def close(): Unit = {
    server.close()
    TestDirectory.delete(directory)
  }
}

object S3Server {
  val AccessKey = "access"
  val SecretKey = "secret"
  val Bucket = "bucket"

  /** System properties in which the SDK's default chain finds the credentials. */
  val Credentials: Seq[(String, String)] =
    Seq("aws.accessKeyId" -> AccessKey, "aws.secretAccessKey" -> SecretKey)

  /** The credentials as JVM options. */
  val CredentialOptions: String =
    Credentials.map { case (key, value) => s"-D$key=$value" }.mkString(" ")
}
