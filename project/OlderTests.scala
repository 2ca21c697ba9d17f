import sbt._

/** Which tests run on the older lines of Spark too: those whose code meets Spark. */
object OlderTests {
  private val packages = Seq("org", "io/cleancut/e2e", "io/cleancut/golden", "io/cleancut/testkit")

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
    "RequestsOfEpochsSuite.scala"
  )

  /** Lines before 4.2 need no operators of our own, which these are of. */
  private val since42 = Set(
    "TransformWithStateRuleSuite.scala"
  )

  def sources(root: File, line: String): Seq[File] = {
    val left = without ++ (if (Set("4.0", "4.1")(line)) since42 else Set.empty)
    packages.flatMap(name => (root / name ** "*.scala").get).filterNot(f => left(f.getName))
  }
}
