package io.cleancut.testkit

import java.nio.file.Files

/** versitygw on a directory, as `make versitygw` compiles it. */
object VersityGateway {
  private def program: String = System.getenv("CLEANCUT_VERSITYGW")

  def start(): S3Server = {
    val directory = Files.createTempDirectory("versitygw")
    val data = directory.resolve("data")
    Files.createDirectories(data.resolve(S3Server.Bucket))
    val port = ServerProcess.freePort()
    val options = Seq("--port", s"127.0.0.1:$port", "--keep-alive", "--quiet")
    val owner =
      Map("ROOT_ACCESS_KEY" -> S3Server.AccessKey, "ROOT_SECRET_KEY" -> S3Server.SecretKey)
    val command = (program +: options) ++ Seq("posix", data.toString)
    val server = ServerProcess.start(command, port, owner)(directory.resolve("log"))
    new S3Server(server, directory)
  }
}
