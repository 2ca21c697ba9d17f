package io.cleancut.coordinator.sim

import scala.collection.mutable

/** Where results go: it keeps what it got in spite of all crashes. */
final class SimSink {
  private val written = mutable.Map.empty[Long, Map[SimTask, Vector[Int]]]
  private val staged = mutable.Map.empty[String, Map[SimTask, Vector[Int]]]

  def hasSeen(epoch: Long): Boolean = written.contains(epoch)

  /** Takes the rows of an epoch at once, or finds that it has them; false if they were others. */
  def write(epoch: Long, rows: Map[SimTask, Vector[Int]]): Boolean =
    written.getOrElseUpdate(epoch, rows) == rows

  /** Takes the rows of an epoch under a name, where nobody sees them. */
  def stage(name: String, rows: Map[SimTask, Vector[Int]]): Unit = staged(name) = rows

  /** Shows what was staged; false if it is not there, or other rows of the epoch were shown. */
  def show(epoch: Long, name: String): Boolean = staged.get(name).exists(write(epoch, _))

  /** Rows that a task has given in these epochs, by epoch. */
  def shown(task: SimTask, epochs: Set[Long]): Vector[Int] =
    written.toVector
      .sortBy(_._1)
      .filter(of => epochs(of._1))
      .flatMap(_._2.getOrElse(task, Vector.empty))
}
