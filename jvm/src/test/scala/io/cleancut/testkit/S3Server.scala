package io.cleancut.testkit

/** An S3 server with one bucket, in a process of its own on loopback. */
trait S3Server extends AutoCloseable {
  def port: Int

  /** What an endpoint has behind the port. */
  def path: String = ""

  def endpoint: String = s"http://127.0.0.1:$port$path"
}

object S3Server {
  val AccessKey = "access"
  val SecretKey = "secret"
  val Bucket = "bucket"
}
