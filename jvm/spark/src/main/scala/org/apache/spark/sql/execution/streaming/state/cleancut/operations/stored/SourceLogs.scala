package org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored

/**
 * The logs of file sources, below `sources` in a checkpoint. A log usually has the name that the
 * source has in the offset log. But Spark numbers offsets by the places in the plan where a source
 * is read, and logs by the sources. If the plan reads a source twice, as a self-join does, the two
 * numbers differ, and the checkpoint does not contain which log belongs to which offset.
 */
final private[operations] class SourceLogs(place: OfflinePlace, offsets: EpochLogs.Offsets) {
  private val bySource = EpochLogs.bySource(offsets).toMap

  /** The last entry that the offsets include, by file source. */
  private val included: Map[String, Long] = for {
    (source, Some(offset)) <- bySource
    entry <- NewCheckpoint.logEntryOf(offset)
  } yield source -> entry

  /** The names of all logs, which other kinds of sources may also have. */
  val names: Seq[String] = NewCheckpoint.namesIn(place, NewCheckpoint.Sources)

  private val entries: Map[String, Seq[String]] =
    names.map(log => log -> NewCheckpoint.namesIn(place, s"${NewCheckpoint.Sources}/$log")).toMap

  private val unlike = included.filterNot { case (source, entry) => has(source, entry) }

  /** Whether each file source has a log with its name. */
  val haveNamesOfSources: Boolean = unlike.isEmpty

  /** The entries of a log. */
  def entriesOf(log: String): Seq[String] = entries.getOrElse(log, Nil)

  /** A file source whose log lacks the entry that the offsets include, and the entry. */
  def missing: Option[(String, Long)] = {
    // If there is a log for each offset, no two offsets have the same one.
    val areFewer = bySource.keys.exists(source => !entries.contains(source))
    val isShared = areFewer && names.size >= included.values.toSet.size &&
      unlike.values.forall(entry => names.exists(has(_, entry)))
    if (isShared) None else unlike.minOption
  }

  /**
   * The last entry of a log that the offsets include, -1 if they include none. An earlier one if
   * logs have other names than sources. None if the log is not of a file source.
   */
  def last(log: String): Option[Long] =
    if (!haveNamesOfSources) Some(included.values.min)
    else
      bySource.get(log).flatten match {
        case None    => Some(-1L)
        case Some(_) => included.get(log)
      }

  /** A compacted entry includes all entries before it. */
  private def has(log: String, entry: Long): Boolean = entriesOf(log).exists { name =>
    NewCheckpoint.entryNumber(name).exists { number =>
      number == entry || (number > entry && name.endsWith(NewCheckpoint.Compacted))
    }
  }
}
