import sbt._
import sbt.Keys._

/**
 * Class paths of the processes that tests start: not part of the tests' own, where they would
 * conflict.
 */
object ChildJvm {

  /** An S3 server over a directory. */
  val S3Proxy: Configuration = Configuration.of("S3Proxy", "s3proxy").hide

  /** Another AWS SDK than ours, as on a cluster. */
  val OtherSdk: Configuration = Configuration.of("OtherSdk", "other-sdk").hide

  val configurations: Seq[Configuration] = Seq(S3Proxy, OtherSdk)

  val modules: Seq[ModuleID] = Seq(
    // Its declared version is too old to start.
    "com.fasterxml.jackson.core" % "jackson-annotations" % Versions.S3ProxyJackson % S3Proxy,
    "org.gaul" % "s3proxy" % Versions.S3Proxy % S3Proxy,
    "software.amazon.awssdk" % "s3" % Versions.OtherAwsSdk % OtherSdk
  )

  def classPath(report: UpdateReport, configuration: Configuration): String =
    report.select(configurationFilter(configuration.name)).mkString(java.io.File.pathSeparator)

  /** JVM options of tests that use the S3 server: its class path, and the credentials. */
  def s3Options(report: UpdateReport): Seq[String] = Seq(
    "-Daws.accessKeyId=access",
    "-Daws.secretAccessKey=secret",
    s"-Dcleancut.test.s3proxy=${classPath(report, S3Proxy)}"
  )
}
