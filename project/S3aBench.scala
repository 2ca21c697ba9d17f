import sbt._

/** The sources that the comparison through S3A uses: none that uses an SDK. */
object S3aBench {
  private val ofTests = Seq("FaultProxy", "SerialChain", "ServerProcess", "TestDirectory")
  private val ofBench = Seq("queries/BenchProcessors", "queries/BenchQuery", "base/Figures")

  def sources(tests: File, bench: File): Seq[File] =
    ofTests.map(name => tests / "io" / "cleancut" / "testkit" / s"$name.scala") ++
      ofBench.map(name => bench / "io" / "cleancut" / "bench" / s"$name.scala")
}
