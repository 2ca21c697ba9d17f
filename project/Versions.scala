/** Every pinned version of the JVM build. The Python pins are in pyproject.toml. */
object Versions {

  /** The same number as in pyproject.toml; building the wheel fails where they differ. */
  val Cleancut = "0.1.0"

  /** The line of Spark whose jars come from the pinned PySpark. */
  val Spark = "4.3.0"

  /** The older line, from the Maven registry, which also has its tests; `suites` runs them. */
  val OlderSpark = "4.2.0"

  /** Spark's own Scala, to the last digit, because its compiler lies on the class path too. */
  val Scala = "2.13.18"

  val ScalaTest = "3.2.19"
  val ScalaTestScalaCheck = s"$ScalaTest.0"
  val ScalaCheck = "1.18.1"
}
