package io.cleancut.objectstore

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit._

/** An S3 server over TLS whose certificate is of a private authority. */
class TlsSuite extends AnyFunSuite {

  /** What a client says that has the JVM's usual options for trust, in a process of its own. */
  private def said(server: S3Server, trusted: Option[KeyStoreFile]): String = {
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

  test("an authority that the JVM trusts will do; without, the error says at once what to set") {
    served("ip:127.0.0.1") { (ca, server) =>
      val sound = said(server, Some(ca.trustStore))
      assert(sound.contains(TlsCheck.Sound), sound)
      val refused = said(server, None)
      assert(refused.contains("[CLEANCUT_OBJECT_STORE_REFUSED]"), refused)
      assert(refused.contains("its certificate is not trusted"), refused)
      assert(refused.contains("-Djavax.net.ssl.trustStore "), refused)
      assert(refused.contains(s"${TlsCheck.Retries}0"), refused)
    }
  }

  test("a certificate for another host is refused", LongTest) {
    served("dns:elsewhere.example") { (ca, server) =>
      val refused = said(server, Some(ca.trustStore))
      assert(refused.contains("[CLEANCUT_OBJECT_STORE_REFUSED]"), refused)
      assert(refused.contains("certificate"), refused)
    }
  }
}
