package io.cleancut.s3a

import java.nio.file.{Files, Path}

import io.cleancut.testkit.{ServerProcess, TestDirectory}

/** versitygw over a directory, on loopback and with an empty bucket. */
final class VersityServer private (server: ServerProcess, directory: Path) extends AutoCloseable {
  def port: Int = server.port

  override def close(): Unit = {
    server.close()
    TestDirectory.delete(directory)
  }
}

object VersityServer {
  val AccessKey = "access"
  val SecretKey = "secret"
  val Bucket = "bucket"
  private val Program = "CLEANCUT_VERSITYGW"

  def start(): VersityServer = {
    val program = sys.env.get(Program).map(Path.of(_)).filter(Files.isExecutable(_)).getOrElse {
      throw new IllegalStateException(s"$Program does not name versitygw: run 'make bench-s3a'")
    }
    val directory = Files.createTempDirectory("versitygw")
    val data = Files.createDirectories(directory.resolve(s"data/$Bucket")).getParent
    val port = ServerProcess.freePort()
    val command =
      Seq(program.toString, "--port", s"127.0.0.1:$port", "--quiet", "posix", data.toString)
    val secrets = Map("ROOT_ACCESS_KEY" -> AccessKey, "ROOT_SECRET_KEY" -> SecretKey)
    new VersityServer(
      ServerProcess.start(command, port, secrets)(directory.resolve("log")),
      directory
    )
  }
}
