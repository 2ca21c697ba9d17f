import sbt._

/** The libraries of the tests of the JVM code. */
object TestLibraries {
  val modules: Seq[ModuleID] = Seq(
    "org.scalatest" %% "scalatest" % Versions.ScalaTest % Test,
    "org.scalatestplus" %% "scalacheck-1-18" % Versions.ScalaTestScalaCheck % Test,
    "org.scalacheck" %% "scalacheck" % Versions.ScalaCheck % Test
  )
}
