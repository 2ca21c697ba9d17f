package io.cleancut.history

import io.cleancut.base.StateVersion
import io.cleancut.format.NameDigits

/** The names of the files of a query's history, below the root of its cuts. */
object HistoryLayout {
  import NameDigits.padded

  private val Name = """(\d{20})-(\d{20})-([0-9a-f]{32})\.parquet""".r

  val Directory: String = "history/"

  /**
   * A file of records.
   *
   * @param first
   *   epoch of its first record
   * @param last
   *   epoch of its last record; epochs in between may be missing
   */
  final case class Of(name: String, first: Long, last: Long)

  def file(first: Long, last: Long, id: String): String = {
    require(StateVersion.isId(id), s"not an id: $id")
    s"$Directory${padded(first)}-${padded(last)}-$id.parquet"
  }

  /** Parses a name below the root; None for foreign objects. */
  def parse(name: String): Option[Of] = name.stripPrefix(Directory) match {
    case Name(first, last, _) =>
      for (from <- first.toLongOption; to <- last.toLongOption) yield Of(name, from, to)
    case _ => None
  }
}
