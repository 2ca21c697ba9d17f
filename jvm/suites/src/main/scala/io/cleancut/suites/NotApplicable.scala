package io.cleancut.suites

import scala.io.Source
import scala.util.Using

/** A test of Spark's that is not run, and why it cannot apply to this provider. */
final case class NotApplicable(suite: String, test: String, reason: String)

object NotApplicable {

  private val File = "not-applicable.txt"

  /** The whole list, or an IllegalArgumentException that names the first line out of place. */
  lazy val all: Seq[NotApplicable] =
    Using.resource(Source.fromResource(File, getClass.getClassLoader)(scala.io.Codec.UTF8)) {
      source => parse(source.getLines().toSeq)
    }

  /** Suites, reasons and tests are told apart by their indentation: none, two and four spaces. */
  private[suites] def parse(lines: Seq[String]): Seq[NotApplicable] = {
    var suite, reason = Option.empty[String]
    val found = lines.zipWithIndex.flatMap { case (line, index) =>
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
    val twice = found.groupBy(entry => (entry.suite, entry.test)).filter(_._2.sizeIs > 1).keys
    require(twice.isEmpty, s"$File lists twice: ${twice.mkString(", ")}")
    found
  }
}
