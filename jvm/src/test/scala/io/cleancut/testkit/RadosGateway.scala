package io.cleancut.testkit

import java.nio.file.{Files, Path}

/** Ceph's S3 server, over objects in memory. */
final class RadosGateway private (server: ServerProcess, directory: Path) extends S3Server {
  override def port: Int = server.port

  override def close(): Unit = {
    server.close()
    TestDirectory.delete(directory)
  }
}

object RadosGateway {
  private val Starter = Seq("-m", "tests.support.rados_gateway")

  /** The Python that `make nightly` names. */
  private def python: String = System.getenv("CLEANCUT_CEPH")

  def start(): RadosGateway = {
    val directory = Files.createTempDirectory("ceph")
    val port = ServerProcess.freePort()
    val places = Seq(port.toString, directory.resolve("ceph").toString, S3Server.Bucket)
    val command = (python +: Starter) ++ places ++ Seq(S3Server.AccessKey, S3Server.SecretKey)
    new RadosGateway(ServerProcess.start(command, port)(directory.resolve("log")), directory)
  }
}
