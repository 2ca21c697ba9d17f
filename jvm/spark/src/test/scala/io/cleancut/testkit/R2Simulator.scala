package io.cleancut.testkit

import java.nio.file.{Files, Path, StandardCopyOption}

import scala.util.Using

/** Cloudflare's simulator of R2, as `make stores` installs it. */
object R2Simulator {

  /** The directory of miniflare. */
  private def installed: Path = Path.of(System.getenv("CLEANCUT_R2_SIMULATOR")).toAbsolutePath
  private def node: String = System.getenv("CLEANCUT_NODE")

  def start(): S3Server = {
    val directory = Files.createTempDirectory("r2")
    val script = directory.resolve("r2-simulator.mjs")
    Using.resource(getClass.getResourceAsStream("/r2-simulator.mjs")) { in =>
      Files.copy(in, script, StandardCopyOption.REPLACE_EXISTING)
    }
    val port = ServerProcess.freePort()
    val data = directory.resolve("data").toString
    val command = Seq(node, script.toString, installed.toString, port.toString, data) ++
      Seq(S3Server.Bucket, S3Server.AccessKey, S3Server.SecretKey)
    val server = ServerProcess.start(command, port)(directory.resolve("log"))
    new S3Server(server, directory, path = "/cdn-cgi/local/r2/s3")
  }
}
