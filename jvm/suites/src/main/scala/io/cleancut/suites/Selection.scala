package io.cleancut.suites

import org.scalatest.{DynaTags, Filter, Suite}

/** The suites to run, all if none is named, and a part of test names. */
final case class Selection(suites: Seq[Class[_ <: Suite]], part: String) {

  /**
   * Selects the tests of a suite, except for those listed as not applicable. Throws
   * IllegalArgumentException if a listed test does not exist, so that the list stays up to date.
   */
  def filter(suite: Suite): Filter = {
    val listed = NotApplicable.all.filter(_.suite == suite.suiteName).map(_.test).toSet
    val unknown = listed -- suite.testNames
    require(
      unknown.isEmpty,
      s"${suite.suiteName} has no such test, but the list does: ${unknown.mkString("; ")}"
    )
    def tagged(tests: Iterable[String], tag: String) = tests.map(_ -> Set(tag)).toMap
    val selected = suite.testNames.filter(_.contains(part))
    val tags = tagged(selected -- listed, Selection.Run) ++
      tagged(selected & listed, Selection.Ignored)
    Filter(
      tagsToInclude = Some(Set(Selection.Run, Selection.Ignored)),
      dynaTags = DynaTags(Map.empty, Map(suite.suiteId -> tags))
    )
  }
}

object Selection {
  private val Run = "io.cleancut.suites.Run"
  private val Ignored = "org.scalatest.Ignore"

  /**
   * Parses `[suite ...] [-z part]`. The name of a Spark class that some suites extend selects all
   * of these suites. Throws IllegalArgumentException for other unknown names.
   */
  def parse(args: Seq[String]): Selection = {
    val (names, rest) = args.span(_ != "-z")
    require(rest.isEmpty || rest.size == 2, "Usage: [suite ...] [-z part of a test's name]")
    val byName = Suites.all.map(suite => suite.getSimpleName -> Seq[Class[_ <: Suite]](suite)).toMap
    val known = extended ++ byName
    val unknown = names.filterNot(known.contains) ++
      NotApplicable.all.map(_.suite).filterNot(byName.contains)
    def listed(names: Iterable[String]) = names.toSeq.distinct.sorted.mkString(", ")
    require(
      unknown.isEmpty,
      s"Unknown: ${listed(unknown)}.\nKnown: ${listed(byName.keys)}.\n" +
        s"Known for all that extend it: ${listed(extended.keySet -- byName.keySet)}."
    )
    val suites = if (names.isEmpty) Suites.all else names.flatMap(known).distinct
    Selection(suites, rest.drop(1).mkString)
  }

  /** Suites by the classes of Spark SQL that they extend. */
  private lazy val extended: Map[String, Seq[Class[_ <: Suite]]] = {
    val pairs = for {
      suite <- Suites.all
      base <- Iterator.iterate[Class[_]](suite)(_.getSuperclass).takeWhile(_ != null)
      if base.getName.startsWith(SparkSql)
    } yield base.getSimpleName -> suite
    pairs.groupMap(_._1)(_._2)
  }

  private val SparkSql = "org.apache.spark.sql."
}
