package io.cleancut.cuts.sim

import scala.collection.mutable

/** Where results go: it keeps what it got in spite of all crashes. */
final class SimSink {
  private val written = mutable.Map.empty[Long, Map[SimTask, Vector[Int]]]

  def hasSeen(epoch: Long): Boolean = written.contains(epoch)

  /** Takes the rows of an epoch at once, or finds that it has them; false if they were others. */
  def write(epoch: Long, rows: Map[SimTask, Vector[Int]]): Boolean =
    written.getOrElseUpdate(epoch, rows) == rows
}
