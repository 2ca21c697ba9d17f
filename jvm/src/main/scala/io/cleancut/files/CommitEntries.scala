package io.cleancut.files

import java.io.FileNotFoundException
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Using

import org.apache.hadoop.fs.Path
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.cuts.CutArchive
import io.cleancut.error.Errors
import io.cleancut.format.Cut

/**
 * Spark's commit log as files of its own, of a query whose epochs are committed by cuts. A cut
 * holds its epoch's entry, which is written behind it, so that all readers of a checkpoint find it.
 *
 * @param directory
 *   `<checkpointLocation>/commits`
 */
final private[cleancut] class CommitEntries(directory: Path, files: CheckpointFileManager) {
  import CommitEntries._

  /** The epoch whose entry a path is. */
  def epochOf(path: Path): Option[Long] = CheckpointLogs.entryOf(directory, path)

  /**
   * Writes an entry whose cut is there. Another may have done so in place of the one whose turn it
   * was.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, where another entry is there
   */
  def write(epoch: Long, entry: String): Unit = {
    val path = new Path(directory, epoch.toString)
    if (!LogEntries.create(path, entry, files) && read(path) != entry) {
      val owner = s"a driver without cuts has written $path"
      throw Errors.fenced(directory.getParent.toString, epoch, owner)
    }
  }

  /**
   * Writes the entry of the last cut, if the driver that wrote the cut died before it could. To be
   * called before Spark reads the log.
   *
   * @return
   *   which epoch's it has written
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUTS_OVERTAKEN
   */
  def rollForward(archive: CutArchive): Option[Long] = {
    // Before the cuts: a driver that still goes on writes an epoch's entry behind its cut.
    val written = epochs()
    archive.last().flatMap { cut =>
      written.maxOption.filter(_ > cut.epoch && cut.stores.nonEmpty).foreach { last =>
        throw Errors.cutsOvertaken(directory.getParent.toString, last, cut.epoch)
      }
      Option.unless(written(cut.epoch)) {
        files.mkdirs(directory)
        write(cut.epoch, cut.commit)
        logger.info(s"Epoch ${cut.epoch} was committed by its cut; wrote its entry to $directory")
        cut.epoch
      }
    }
  }

  /** The same for the cut that a run goes on behind. */
  def rollForward(cut: Cut): Unit =
    if (!files.exists(new Path(directory, cut.epoch.toString))) {
      files.mkdirs(directory)
      write(cut.epoch, cut.commit)
    }

  private def epochs(): Set[Long] =
    try files.list(directory).flatMap(_.getPath.getName.toLongOption).toSet
    catch { case _: FileNotFoundException => Set.empty }

  private def read(path: Path): String =
    Using.resource(files.open(path))(in => new String(in.readAllBytes(), UTF_8))
}

private[cleancut] object CommitEntries {
  private val logger = LoggerFactory.getLogger(classOf[CommitEntries])
}
