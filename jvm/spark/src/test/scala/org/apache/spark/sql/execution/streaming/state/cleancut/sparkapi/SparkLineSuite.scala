package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.SPARK_VERSION

import io.cleancut.error.CleancutException

class SparkLineSuite extends AnyFunSuite {
  private def refusal(version: String): String = {
    val refused = intercept[CleancutException](SparkLine.check(version))
    assert(refused.getErrorId == "CLEANCUT_VERSION_UNSUPPORTED")
    refused.getMessage
  }

  test("the Spark release of these tests is accepted") {
    assert(SPARK_VERSION.startsWith(s"${BuiltFor.Spark}."))
    SparkLine.check()
  }

  test("every release of the line is accepted") {
    Seq("1", "7", "1-SNAPSHOT").foreach(last => SparkLine.check(s"${BuiltFor.Spark}.$last"))
  }

  test("a line with its own jar is refused with the name of that jar") {
    Seq("4.0", "4.1", "4.2", "4.3").filter(_ != BuiltFor.Spark).foreach { other =>
      val text = refusal(s"$other.1")
      assert(text.contains(s"This jar is cleancut-spark-${BuiltFor.Spark}, but Spark is $other.1."))
      assert(text.contains(s"Use cleancut-spark-$other."))
    }
  }

  test("an unknown line is refused with the supported lines") {
    Seq("3.5.8", "4.0.0", "4.0.0-vendor-1", s"${BuiltFor.Spark}0.0", "5.0.0").foreach { version =>
      val text = refusal(version)
      assert(text.contains(s"Spark is $version.") && !text.contains("Use cleancut-spark"))
      assert(
        text.contains(
          "Spark 4.0.x, 4.1.x, 4.2.x or 4.3.x, except 4.0.0; Scala 2.13; " +
            "Java 17 or later."
        )
      )
    }
  }
}
