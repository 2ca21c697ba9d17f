import sbt._

/** The tests that run on earlier Spark versions too: those of code that uses Spark. */
object EarlierVersionTests {
  private val packages = Seq("org", "io/cleancut/e2e", "io/cleancut/golden", "io/cleancut/testkit")

  /** Tests of code that is the same for all Spark versions; some need an S3 server or HDFS. */
  private val withoutPackages = Set("checkpointfiles", "checkpointlogs", "localfiles")

  /**
   * They need executors with the packaged jar, an S3 server, HDFS, the benchmarks' queries, or
   * helpers of the coordinator's tests; and real-time mode has no stateful operator there.
   */
  private val without = Set(
    "AskedPatienceSuite.scala",
    "CheckpointOnS3Suite.scala",
    "CutsEndpointSuite.scala",
    "CutsOnFilesSuite.scala",
    "DeathsOnS3Suite.scala",
    "LongUploadSuite.scala",
    "KillableHdfs.scala",
    "NexmarkSuite.scala",
    "QueryOnHdfsSuite.scala",
    "RealTimeModeSuite.scala",
    "StartDuringCommitSuite.scala",
    "EpochRequestsSuite.scala",
    "UnusualLocationsSuite.scala"
  )

  /** By the first Spark version with the tested feature. */
  private val since = Map(
    // Tests of single stores, and of the last base of each.
    "BaseMetricsSuite.scala" -> "4.1",
    "BaseReportsSuite.scala" -> "4.1",
    // Earlier versions need no operators of ours.
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
