package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.{FileNotFoundException, IOException}
import java.util.UUID

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{FileStatus, FileSystem, Path}

import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.StoredQuery

import io.cleancut.format.StoreLayout

/**
 * State of Spark's RocksDB provider that an offline operation has written but not yet committed.
 *
 * Spark loads the latest snapshot that is not above the version it needs. A snapshot of an
 * uncommitted operation in `state` would therefore become part of the query once the query reaches
 * its version. So the operation writes below `cleancut/staged`, and moves the files to `state` when
 * both of its entries of the offset log exist: no other run can then plan an epoch before the
 * operation's own, and a query that starts on these entries needs a version that does not exist.
 *
 * @param runId
 *   ID of the operation, so that two operations do not mix their files
 */
final private[operations] class StagedState(
    location: String,
    runId: UUID,
    hadoopConf: Configuration
) {
  import StagedState._

  private val root = new Path(location, StoreLayout.RootName)
  private val staged = new Path(root, Staged)
  private val state = new Path(StoredQuery.stateRoot(location))
  private val files: FileSystem = root.getFileSystem(hadoopConf)

  /** Where stores write, instead of `state`. */
  val stateRoot: String = new Path(staged, s"$runId/${state.getName}").toString

  /**
   * Moves all files to `state`. The snapshot of a store comes last: it names the other files.
   *
   * @param stores
   *   number of the stores that were written
   */
  def moveToState(stores: Int): Unit = {
    val moved = moveAll(new Path(stateRoot), state)
    if (moved != stores) throw new IOException(s"$stateRoot has files of $moved of $stores stores")
  }

  /** Creates the directory, which another operation deletes when it begins. */
  def create(): Unit = {
    files.mkdirs(new Path(stateRoot))
    ()
  }

  def exists: Boolean = exists(new Path(stateRoot))

  /** Deletes all files that are not moved, also those of operations that were interrupted. */
  def delete(): Unit = {
    files.delete(staged, true)
    if (exists(root) && list(root).isEmpty) files.delete(root, false)
    ()
  }

  /**
   * Deletes moved files. Only for versions that the query itself cannot have written, because an
   * operation owns the epochs before them.
   */
  def deleteMoved(afterVersion: Long): Unit = for {
    operator <- list(state) if isNumber(operator)
    partition <- list(operator.getPath) if isNumber(partition)
    directory <- partition +: list(partition.getPath).filter(isStore)
    file <- list(directory.getPath) if versionOf(file).exists(_ > afterVersion)
  } files.delete(file.getPath, false)

  /** Returns the number of stores whose files were moved. */
  private def moveAll(from: Path, to: Path): Int = {
    val (directories, children) = files.listStatus(from).toSeq.partition(_.isDirectory)
    if (children.nonEmpty) files.mkdirs(to)
    // Before the files, because a snapshot names files in the directories next to it.
    val below =
      directories.map(status => moveAll(status.getPath, new Path(to, status.getPath.getName)))
    for (child <- children) {
      val target = new Path(to, child.getPath.getName)
      if (!files.rename(child.getPath, target)) {
        throw new IOException(s"${child.getPath} could not be moved to $target")
      }
    }
    below.sum + (if (!Shared(from.getName) && children.exists(versionOf(_).isDefined)) 1 else 0)
  }

  private def list(directory: Path): Seq[FileStatus] =
    try files.listStatus(directory).toSeq
    catch { case _: FileNotFoundException => Nil }

  private def exists(path: Path): Boolean = files.exists(path)
}

private object StagedState {
  private val Staged = "staged"
  private val Shared = Set("SSTs", "logs")

  private def isNumber(status: FileStatus) =
    status.isDirectory && status.getPath.getName.toLongOption.isDefined

  /** A store that is not the default one has a directory below that of the partition. */
  private def isStore(status: FileStatus) =
    status.isDirectory && !status.getPath.getName.startsWith("_") && !Shared(status.getPath.getName)

  /** The version of a snapshot or changelog: `<version>.zip`, `<version>_<id>.changelog`. */
  private def versionOf(status: FileStatus): Option[Long] =
    if (status.isDirectory) None else status.getPath.getName.takeWhile(_.isDigit).toLongOption
}
