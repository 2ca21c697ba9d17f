package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import java.net.URL
import java.util.Properties

import scala.util.Using

/**
 * Compares the build information of the jar of this line and the jar that all lines share. Both
 * must be from one build; otherwise a query would fail later because of a missing method.
 */
private[sparkapi] object SharedJar {

  /**
   * Refuses a shared jar that is missing or of another build. The exception is not a
   * `CleancutException`, because that class is in the shared jar; its text has the same form.
   */
  def check(): Unit = problem.foreach { problem =>
    throw new IllegalStateException(
      s"[CLEANCUT_VERSION_UNSUPPORTED] This release of Cleancut does not run with the " +
        s"installed jars. $problem Use both jars of one release."
    )
  }

  // The result never changes, and every opened store calls this.
  private lazy val problem = problemIn(getClass.getClassLoader)

  /** The problem with the jars of a class loader; None if they are of one build. */
  private[sparkapi] def problemIn(loader: ClassLoader): Option[String] = {
    val lineProperties = read(loader.getResource(LineResource))
    val (line, required) =
      (lineProperties.getProperty("line"), lineProperties.getProperty("common"))
    Option(loader.getResource(SharedResource)) match {
      case None =>
        val release = required.takeWhile(_ != ' ')
        Some(s"This jar is cleancut-spark-$line, and cleancut-common $release is missing.")
      case Some(url) =>
        val installed = read(url).getProperty("common")
        Option.when(installed != required) {
          s"This jar is cleancut-spark-$line and requires cleancut-common $required, but the " +
            s"class path has $installed, in ${jarOf(url)}."
        }
    }
  }

  private val LineResource = "META-INF/cleancut/line.properties"
  private val SharedResource = "META-INF/cleancut/common.properties"

  private def read(url: URL): Properties =
    Using.resource(url.openStream()) { in =>
      val properties = new Properties
      properties.load(in)
      properties
    }

  private def jarOf(url: URL): String =
    url.getPath.stripPrefix("file:").takeWhile(_ != '!')
}
