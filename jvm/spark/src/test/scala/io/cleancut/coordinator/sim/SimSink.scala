package io.cleancut.coordinator.sim

import scala.collection.mutable

/** The target of the results. It is durable: its rows survive all crashes. */
final class SimSink {
  private val written = mutable.Map.empty[Long, Map[SimTask, Vector[Int]]]
  private val staged = mutable.Map.empty[String, Map[SimTask, Vector[Int]]]

  def hasSeen(epoch: Long): Boolean = written.contains(epoch)

  /**
   * Writes the rows of an epoch atomically, or compares them with the existing rows; false if they
   * differ.
   */
  def write(epoch: Long, rows: Map[SimTask, Vector[Int]]): Boolean =
    written.getOrElseUpdate(epoch, rows) == rows

  /** Stages the rows of an epoch under a name, without publishing them. */
  def stage(name: String, rows: Map[SimTask, Vector[Int]]): Unit = staged(name) = rows

  /** Publishes staged rows; false if they do not exist or differ from the published rows. */
  def show(epoch: Long, name: String): Boolean = staged.get(name).exists(write(epoch, _))

  /** The published rows of a task in these epochs, by epoch. */
  def shown(task: SimTask, epochs: Set[Long]): Vector[Int] =
    written.toVector
      .sortBy(_._1)
      .filter { case (epoch, _) => epochs(epoch) }
      .flatMap(_._2.getOrElse(task, Vector.empty))
}
