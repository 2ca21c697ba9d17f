package io.cleancut.testkit

import java.nio.file.{Files, Path}

/** versitygw over a directory, as `make versitygw` compiles it. */
final class VersityGateway private (server: ServerProcess, directory: Path) extends S3Server {
  override def port: Int = server.port

  override def close(): Unit = {
    server.close()
    TestDirectory.delete(directory)
  }
}

object VersityGateway {
  private def program: String = System.getenv("CLEANCUT_VERSITYGW")

  def start(): VersityGateway = {
    val directory = Files.createTempDirectory("versitygw")
    val data = directory.resolve("data")
    Files.createDirectories(data.resolve(S3Server.Bucket))
    val port = ServerProcess.freePort()
    val options = Seq("--port", s"127.0.0.1:$port", "--keep-alive", "--quiet")
    val owner =
      Map("ROOT_ACCESS_KEY" -> S3Server.AccessKey, "ROOT_SECRET_KEY" -> S3Server.SecretKey)
    val command = (program +: options) ++ Seq("posix", data.toString)
    val server = ServerProcess.start(command, port, owner)(directory.resolve("log"))
    new VersityGateway(server, directory)
  }
}
