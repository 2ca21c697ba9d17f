package io.cleancut.suites

import scala.io.Source
import scala.util.Using

/** A test of Spark that is not run, and the reason why it cannot apply to this provider. */
final case class NotApplicable(suite: String, test: String, reason: String)

object NotApplicable {

  private val File = "not-applicable.txt"

  /** The complete list, or an IllegalArgumentException that names the first misplaced line. */
  lazy val all: Seq[NotApplicable] =
    Using.resource(Source.fromResource(File, getClass.getClassLoader)(scala.io.Codec.UTF8)) {
      source => parse(source.getLines().toSeq)
    }

  /**
   * Suites, reasons and tests are distinguished by their indentation: none, two and four spaces.
   */
  private[suites] def parse(lines: Seq[String]): Seq[NotApplicable] = {
    var suite, reason = Option.empty[String]
    val entries = lines.zipWithIndex.flatMap { case (line, index) =>
      def misplaced(missing: String): Nothing =
        throw new IllegalArgumentException(s"$File:${index + 1} needs $missing before it: $line")
      val text = line.trim
      line.segmentLength(_ == ' ') match {
        case _ if text.isEmpty || line.startsWith("#") => None
        case 0                                         =>
          suite = Some(text)
          reason = None
          None
        case 2 =>
          reason = Some(text)
          None
        case 4 =>
          Some(
            NotApplicable(
              suite.getOrElse(misplaced("a suite")),
              text,
              reason.getOrElse(misplaced("a reason"))
            )
          )
        case _ => misplaced("none, two or four spaces")
      }
    }
    val twice = entries.groupBy(entry => (entry.suite, entry.test)).filter(_._2.sizeIs > 1).keys
    require(twice.isEmpty, s"$File lists twice: ${twice.mkString(", ")}")
    entries
  }
}
