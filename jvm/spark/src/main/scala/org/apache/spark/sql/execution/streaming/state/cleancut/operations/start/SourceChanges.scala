package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import StartFinding._

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.EpochLogs

/** Differences between the sources in a checkpoint's offsets and the sources of a query. */
private[operations] object SourceChanges {
  def between(stored: EpochLogs.Offsets, query: PlannedStart): Seq[StartFinding] = {
    val (before, now) = (EpochLogs.bySource(stored).map(_._1), query.sources)
    val areNamed = EpochLogs.areNamed(stored)
    if (areNamed != query.namesSources && before.nonEmpty && now.nonEmpty) {
      Seq(identificationChange(areNamed))
    } else if (areNamed) nameChanges(before, now)
    else {
      val count = if (EpochLogs.areOfPlaces(stored)) now.size else query.sourceCount
      countChange(before.size, count).toSeq
    }
  }

  /** Spark finds named sources anywhere in the query. */
  private def nameChanges(before: Seq[String], now: Seq[String]): Seq[StartFinding] = {
    val removed = before.diff(now).map { name =>
      val what = s"the checkpoint has offsets of source '$name', and the query does not read it"
      finding(Changed, what, "")
    }
    val added = now.diff(before).map { name =>
      val what = s"the checkpoint has no offsets of source '$name'"
      finding(Changed, what, "The query reads it from the beginning.")
    }
    removed ++ added
  }

  private def countChange(before: Int, now: Int): Option[StartFinding] =
    Option.when(before != now) {
      finding(
        Refused,
        s"the checkpoint has offsets of $before sources, and the query has $now",
        "Spark identifies sources by their order, so none can be added or removed; use a new " +
          "checkpoint. With Spark 4.2 and later, name all sources there; then you can add others."
      )
    }

  private def identificationChange(areNamed: Boolean): StartFinding =
    if (areNamed)
      finding(
        Refused,
        "the checkpoint identifies sources by their names, and the query does not name them",
        "Name all sources with readStream.name, as they are named in the checkpoint."
      )
    else
      finding(
        Refused,
        "the checkpoint identifies sources by their order, and the query names them",
        "Remove the names, or use a new checkpoint."
      )

  private def finding(kind: String, what: String, advice: String) =
    StartFinding(kind, "sources", what, advice)
}
