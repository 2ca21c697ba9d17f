import sbt._
import sbt.Keys._

/** Spark's published test classes and their runtime dependencies. */
object SparkSuites {

  private val tested = Seq("spark-sql", "spark-catalyst", "spark-core")

  /** Test classes that the suites above extend or call. */
  private val helpers = Seq("spark-common-utils", "spark-sql-api", "spark-tags")

  val modules: Seq[ModuleID] =
    tested.map(spark) ++
      (tested ++ helpers).map(spark(_).classifier("tests")) ++
      Seq(
        "org.scalatest" %% "scalatest" % Versions.ScalaTest,
        "org.scalatestplus" %% "mockito-5-12" % Versions.ScalaTestScalaCheck,
        "org.scalatestplus" %% "scalacheck-1-18" % Versions.ScalaTestScalaCheck
      )

  /** The class of the tests that checks each access to memory. */
  val CheckedMemory = "io.cleancut.testkit.CheckedMemory"

  /** Checks take most of the time if a test reads all rows of a store repeatedly. */
  private val checks: Seq[String] =
    if (sys.env.contains("CLEANCUT_UNCHECKED")) Nil
    else Seq(s"-Dcleancut.memory.class=$CheckedMemory")

  val javaOptions: Seq[String] = Seq("-ea", "-Xmx3g", "-Xss4m", "-Dspark.testing=true") ++ checks

  def checkedMemory(tests: File): File = tests / s"${CheckedMemory.replace('.', '/')}.scala"

  private def spark(module: String): ModuleID =
    "org.apache.spark" %% module % Versions.Spark42

  /** The directory with the files of the test jar of spark-sql. */
  def unpacked(report: UpdateReport, target: File): Attributed[File] = {
    val jar = report
      .select(
        configurationFilter(Compile.name),
        moduleFilter("org.apache.spark", "spark-sql_2.13"),
        artifactFilter(classifier = "tests")
      )
      .head
    val directory = target / s"spark-sql-${Versions.Spark42}-tests"
    if (!directory.exists) IO.unzip(jar, directory)
    Attributed.blank(directory)
  }
}
