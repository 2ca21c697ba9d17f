package io.cleancut.testkit

import java.nio.file.Files

import scala.jdk.CollectionConverters._

/** s3proxy on a directory: an S3 server with atomic creates. */
object S3ProxyServer {

  /** Without this configuration s3proxy logs every byte of a request. */
  private val Logging =
    """<configuration>
      |  <appender name="console" class="ch.qos.logback.core.ConsoleAppender">
      |    <encoder><pattern>%d %-5level %logger: %msg%n</pattern></encoder>
      |  </appender>
      |  <root level="WARN"><appender-ref ref="console"/></root>
      |</configuration>""".stripMargin

  /**
   * @param checkSignatures
   *   false for tests that change requests in transit
   * @param certificate
   *   certificate for TLS, if any
   */
  def start(
      checkSignatures: Boolean = true,
      certificate: Option[KeyStoreFile] = None
  ): S3Server = {
    val directory = Files.createTempDirectory("s3proxy")
    val data = Files.createDirectories(directory.resolve(s"data/${S3Server.Bucket}")).getParent
    val port = ServerProcess.freePort()
    val tls = certificate.fold(Map("s3proxy.endpoint" -> s"http://127.0.0.1:$port")) { store =>
      Map(
        "s3proxy.secure-endpoint" -> s"https://127.0.0.1:$port",
        "s3proxy.keystore-path" -> store.path.toString,
        "s3proxy.keystore-password" -> store.password
      )
    }
    val conf = tls ++ Map(
      "s3proxy.authorization" -> (if (checkSignatures) "aws-v2-or-v4" else "none"),
      "s3proxy.identity" -> S3Server.AccessKey,
      "s3proxy.credential" -> S3Server.SecretKey,
      "jclouds.provider" -> "filesystem-nio2",
      "jclouds.filesystem.basedir" -> data.toString,
      "jclouds.identity" -> "unused",
      "jclouds.credential" -> "unused"
    )
    val file = directory.resolve("s3proxy.conf")
    Files.write(file, conf.map { case (key, value) => s"$key=$value" }.asJava)
    Files.writeString(directory.resolve("logback.xml"), Logging)
    val classPath = s"$directory:${System.getProperty("cleancut.test.s3proxy")}"
    val command = ServerProcess
      .java(classPath, "org.gaul.s3proxy.Main", "--properties", file.toString)
    val log = directory.resolve("log")
    val scheme = if (certificate.isDefined) "https" else "http"
    new S3Server(ServerProcess.start(command, port)(log), directory, scheme = scheme)
  }
}
