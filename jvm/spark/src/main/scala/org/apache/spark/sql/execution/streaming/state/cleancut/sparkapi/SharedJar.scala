package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import java.net.URL
import java.util.Properties

import scala.util.Using

/**
 * What the jar of this line and the one that all lines share say of themselves. They are halves of
 * one build: with another one, a query would fail in the middle, where a method is missing.
 */
private[sparkapi] object SharedJar {

  /**
   * Refuses one that is missing, or of another build. The exception is none of ours, which are in
   * the very jar that is missing; its text is of the same form.
   */
  def check(): Unit = problem.foreach { problem =>
    throw new IllegalStateException(
      s"[CLEANCUT_VERSION_UNSUPPORTED] This release of Cleancut does not run with what is " +
        s"installed here. $problem Take both jars of one release."
    )
  }

  // The answer stays the same, and each store that is opened asks.
  private lazy val problem = problemIn(getClass.getClassLoader)

  /** What is wrong where a class loader finds them so; None where they are of one build. */
  private[sparkapi] def problemIn(loader: ClassLoader): Option[String] = {
    val own = read(loader.getResource(Own))
    val (line, wanted) = (own.getProperty("line"), own.getProperty("common"))
    Option(loader.getResource(Shared)) match {
      case None =>
        val release = wanted.takeWhile(_ != ' ')
        Some(s"This jar is cleancut-spark-$line, and cleancut-common $release is not beside it.")
      case Some(place) =>
        val there = read(place).getProperty("common")
        Option.when(there != wanted) {
          s"This jar is cleancut-spark-$line and needs cleancut-common $wanted, and the one on " +
            s"the class path is $there, in ${jarOf(place)}."
        }
    }
  }

  private val Own = "META-INF/cleancut/line.properties"
  private val Shared = "META-INF/cleancut/common.properties"

  private def read(place: URL): Properties =
    Using.resource(place.openStream()) { in =>
      val read = new Properties
      read.load(in)
      read
    }

  private def jarOf(place: URL): String =
    place.getPath.stripPrefix("file:").takeWhile(_ != '!')
}
