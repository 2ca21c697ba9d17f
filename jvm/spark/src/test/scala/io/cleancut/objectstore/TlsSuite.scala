package io.cleancut.objectstore

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit._

/** An S3 server over TLS with a certificate of a private authority. */
class TlsSuite extends AnyFunSuite {

  /** The output of a client in a separate process with the JVM's options for a trust store. */
  private def outputOf(server: S3Server, trusted: Option[KeyStoreFile]): String = {
    val options = trusted.toSeq.flatMap { store =>
      Seq(
        s"-Djavax.net.ssl.trustStore=${store.path}",
        s"-Djavax.net.ssl.trustStorePassword=${store.password}"
      )
    }
    val classPath = System.getProperty("java.class.path")
    val command =
      ServerProcess.java(classPath, TlsCheck.getClass.getName.stripSuffix("$"), server.endpoint)
    val builder = new ProcessBuilder((command.head +: (options ++ command.tail)).asJava)
    builder.environment.put("AWS_ACCESS_KEY_ID", S3Server.AccessKey)
    builder.environment.put("AWS_SECRET_ACCESS_KEY", S3Server.SecretKey)
    val process = builder.redirectErrorStream(true).start()
    new String(process.getInputStream.readAllBytes(), UTF_8)
  }

  private def served(names: String)(check: (PrivateCa, S3Server) => Any): Unit = {
    TestDirectory.use("tls") { directory =>
      val ca = new PrivateCa(Files.createDirectory(directory.resolve("ca")))
      val server = S3ProxyServer.start(certificate = Some(ca.server(names)))
      try check(ca, server)
      finally server.close()
    }
    ()
  }

  test(
    "a trusted authority is accepted, and an untrusted one fails without retries, with a remedy"
  ) {
    served("ip:127.0.0.1") { (ca, server) =>
      val passed = outputOf(server, Some(ca.trustStore))
      assert(passed.contains(TlsCheck.Passed), passed)
      val refused = outputOf(server, None)
      assert(refused.contains("[CLEANCUT_OBJECT_STORE_REFUSED]"), refused)
      assert(refused.contains("its certificate is not trusted"), refused)
      assert(refused.contains("-Djavax.net.ssl.trustStore "), refused)
      assert(refused.contains(s"${TlsCheck.Retries}0"), refused)
    }
  }

  test("a certificate for another host is refused", LongTest) {
    served("dns:elsewhere.example") { (ca, server) =>
      val refused = outputOf(server, Some(ca.trustStore))
      assert(refused.contains("[CLEANCUT_OBJECT_STORE_REFUSED]"), refused)
      assert(refused.contains("certificate"), refused)
    }
  }
}
