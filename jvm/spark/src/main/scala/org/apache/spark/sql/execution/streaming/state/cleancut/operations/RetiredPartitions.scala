package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.{FileNotFoundException, IOException}

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileSystem, Path}

import io.cleancut.format.StoreLayout

/**
 * Stores of Cleancut that belong to removed partitions. They are moved next to the state directory,
 * so that readers of the state do not take them for stores that lag.
 *
 * @param epoch
 *   first epoch without them
 */
final private[operations] class RetiredPartitions(
    location: String,
    epoch: Long,
    hadoopConf: Configuration
) {
  private val root = new Path(location, StoreLayout.RootName)
  private val stores = new Path(root, StoreLayout.Stores.stripSuffix("/"))
  private val retired = new Path(root, s"retired/$epoch")
  private val files: FileSystem = root.getFileSystem(hadoopConf)

  /** Moves away all partitions of some operators from a partition number on. */
  def retire(operators: Seq[Long], partitions: Int): Unit =
    for {
      operator <- operators
      name <- namesIn(new Path(stores, operator.toString))
      if name.toIntOption.exists(_ >= partitions)
    } move(new Path(stores, s"$operator/$name"), new Path(retired, s"$operator/$name"))

  /** Moves all partitions back. */
  def restore(): Unit = {
    for {
      operator <- namesIn(retired)
      name <- namesIn(new Path(retired, operator))
    } move(new Path(retired, s"$operator/$name"), new Path(stores, s"$operator/$name"))
    files.delete(retired, true)
    ()
  }

  private def namesIn(directory: Path): Seq[String] =
    try files.listStatus(directory).toSeq.map(_.getPath.getName)
    catch { case _: FileNotFoundException => Nil }

  private def move(from: Path, to: Path): Unit = {
    files.mkdirs(to.getParent)
    if (!files.rename(from, to)) throw new IOException(s"$from could not be moved to $to")
  }
}
