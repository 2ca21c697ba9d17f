package io.cleancut.testkit

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.Path

import scala.jdk.CollectionConverters._

/** A Java key store. */
final case class KeyStoreFile(path: Path, password: String)

/**
 * A private certification authority, created with the JDK's keytool.
 *
 * @param directory
 *   directory of its files
 */
final class PrivateCa(directory: Path) {
  import PrivateCa._

  private val password = "password"
  private val authority = directory.resolve("ca.p12")
  private val certificate = directory.resolve("ca.pem")

  generate(authority, "ca", "CN=Private CA", "bc:c")
  keytool(Seq("-exportcert", "-rfc", "-alias", "ca", "-file", certificate.toString), authority)

  /** The trust store of a client that trusts it. */
  lazy val trustStore: KeyStoreFile = {
    val path = directory.resolve("trusted.p12")
    imported(path, "ca", certificate)
    KeyStoreFile(path, password)
  }

  /** The key and certificate of a server, for names such as `ip:127.0.0.1`. */
  def server(names: String): KeyStoreFile = {
    val path = directory.resolve("server.p12")
    val request = directory.resolve("server.csr").toString
    val signed = directory.resolve("server.pem")
    generate(path, "server", "CN=server", s"san=$names")
    keytool(Seq("-certreq", "-alias", "server", "-file", request), path)
    keytool(
      Seq("-gencert", "-rfc", "-alias", "ca", "-infile", request, "-outfile", signed.toString) ++
        Seq("-ext", s"san=$names"),
      authority
    )
    imported(path, "ca", certificate)
    imported(path, "server", signed)
    KeyStoreFile(path, password)
  }

  private def generate(store: Path, alias: String, name: String, extension: String): Unit =
    keytool(
      Seq("-genkeypair", "-keyalg", "EC", "-alias", alias, "-dname", name, "-ext", extension),
      store
    )

  private def imported(store: Path, alias: String, from: Path): Unit =
    keytool(Seq("-importcert", "-noprompt", "-alias", alias, "-file", from.toString), store)

  private def keytool(arguments: Seq[String], store: Path): Unit = {
    val program = Path.of(System.getProperty("java.home"), "bin", "keytool").toString
    val stored = Seq("-keystore", store.toString, "-storetype", "PKCS12", "-storepass", password)
    val process = new ProcessBuilder((program +: (ForBriefWork ++ arguments ++ stored)).asJava)
      .redirectErrorStream(true)
      .start()
    val printed = new String(process.getInputStream.readAllBytes(), UTF_8)
    if (process.waitFor() != 0) throw new IllegalStateException(printed)
  }
}

private object PrivateCa {
  private val ForBriefWork = Seq("-J-XX:TieredStopAtLevel=1", "-J-XX:+UseSerialGC")
}
