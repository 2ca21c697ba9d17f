package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import java.net.{URL, URLClassLoader}
import java.nio.file.{Files, Path}

import org.scalatest.funsuite.AnyFunSuite

class SharedJarSuite extends AnyFunSuite {
  private val Build = "0.1.0 0123456789abcdef"

  /** A loader that has only these files, by name. */
  private def loaderOf(texts: (String, String)*): ClassLoader = {
    val root = Files.createTempDirectory("jars")
    val folder = Files.createDirectories(root.resolve("META-INF/cleancut"))
    texts.foreach { case (name, text) => Files.writeString(folder.resolve(name), text) }
    new URLClassLoader(Array(urlOf(root)), null)
  }

  private def urlOf(root: Path): URL = root.toUri.toURL

  private val ofLine = "line.properties" -> s"line=4.3 0.1.0\ncommon=$Build\n"

  test("the jars of one build are accepted") {
    assert(SharedJar.problemIn(loaderOf(ofLine, "common.properties" -> s"common=$Build\n")).isEmpty)
    SharedJar.check()
  }

  test("a shared jar of another release or build is an error that names its path") {
    Seq("0.2.0 0123456789abcdef", "0.1.0 fedcba9876543210").foreach { other =>
      val problem = SharedJar.problemIn(loaderOf(ofLine, "common.properties" -> s"common=$other\n"))
      val text = problem.getOrElse(fail("not refused"))
      assert(text.contains("This jar is cleancut-spark-4.3 0.1.0 and requires cleancut-common"))
      assert(text.contains(s"requires cleancut-common $Build"))
      assert(text.contains(s"path has $other, in /"))
    }
  }

  test("a missing shared jar is an error that names it") {
    val text = SharedJar.problemIn(loaderOf(ofLine)).getOrElse(fail("not refused"))
    assert(text.endsWith("and cleancut-common 0.1.0 is missing."))
  }
}
