import sbt._

/** Which tests run on the earlier Spark versions too: those of code that uses Spark. */
object EarlierVersionTests {
  private val packages = Seq("org", "io/cleancut/e2e", "io/cleancut/golden", "io/cleancut/testkit")

  /** Tests of code that is the same for all Spark versions; some need an S3 server or HDFS. */
  private val withoutPackages = Set("checkpointfiles", "checkpointlogs", "localfiles")

  /**
   * They need executors with the packaged jar, an S3 server, HDFS, the benchmarks' queries, or what
   * only the tests of the coordinator have; and real-time mode has no stateful operator there.
   */
  private val without = Set(
    "AskedPatienceSuite.scala",
    "CheckpointOnS3Suite.scala",
    "CutsEndpointSuite.scala",
    "CutsOnFilesSuite.scala",
    "DeathsOnS3Suite.scala",
    "LongUploadSuite.scala",
    "MortalHdfs.scala",
    "NexmarkSuite.scala",
    "QueryOnHdfsSuite.scala",
    "RealTimeModeSuite.scala",
    "RequestsOfEpochsSuite.scala",
    "UnusualLocationsSuite.scala"
  )

  /** By the first Spark version that has what they test. */
  private val since = Map(
    // Of single stores, and the last base of each.
    "BaseMetricsSuite.scala" -> "4.1",
    "BaseReportsSuite.scala" -> "4.1",
    // Earlier lines need no operators of our own.
    "TransformWithStateRuleSuite.scala" -> "4.2"
  )

  def sources(root: File, version: String): Seq[File] = {
    val later = since.collect {
      case (file, first) if SparkVersions.isBefore(version, first) => file
    }
    val left = without ++ later
    packages.flatMap(name => (root / name ** "*.scala").get).filterNot { f =>
      left(f.getName) || withoutPackages(f.getParentFile.getName)
    }
  }
}
