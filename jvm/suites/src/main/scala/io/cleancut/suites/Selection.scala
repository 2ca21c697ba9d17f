package io.cleancut.suites

import org.scalatest.{DynaTags, Filter, Suite}

/** What to run: suites by name, all when none is named, and tests by a part of their name. */
final case class Selection(suites: Seq[Class[_ <: Suite]], part: String) {

  /**
   * Lets through the selected tests of a suite but for those listed as not applicable. Throws
   * IllegalArgumentException when a listed test does not exist, so that the list cannot outlive
   * what it lists.
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

  /** From `[suite ...] [-z part]`. Throws IllegalArgumentException for a suite not known here. */
  def parse(args: Seq[String]): Selection = {
    val (names, rest) = args.span(_ != "-z")
    require(rest.isEmpty || rest.size == 2, "Usage: [suite ...] [-z part of a test's name]")
    val byName = Suites.all.map(suite => suite.getSimpleName -> suite).toMap
    val unknown = (names ++ NotApplicable.all.map(_.suite)).filterNot(byName.contains).distinct
    require(
      unknown.isEmpty,
      s"Unknown: ${unknown.mkString(", ")}. Known: ${byName.keys.toSeq.sorted.mkString(", ")}."
    )
    Selection(if (names.isEmpty) Suites.all else names.map(byName), rest.drop(1).mkString)
  }
}
