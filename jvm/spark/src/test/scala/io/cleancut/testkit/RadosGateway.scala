package io.cleancut.testkit

import java.nio.file.Files

/** Ceph's S3 server with objects in memory. */
object RadosGateway {
  private val Starter = Seq("-m", "tests.support.rados_gateway")

  /** The Python interpreter that `make nightly` configures. */
  private def python: String = System.getenv("CLEANCUT_CEPH")

  def start(): S3Server = {
    val directory = Files.createTempDirectory("ceph")
    val port = ServerProcess.freePort()
    val places = Seq(port.toString, directory.resolve("ceph").toString, S3Server.Bucket)
    val command = (python +: Starter) ++ places ++ Seq(S3Server.AccessKey, S3Server.SecretKey)
    new S3Server(ServerProcess.start(command, port)(directory.resolve("log")), directory)
  }
}
