package io.cleancut.files

import java.nio.charset.StandardCharsets.UTF_8

import org.apache.hadoop.fs.{FileAlreadyExistsException, Path}
import org.slf4j.LoggerFactory

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager

import io.cleancut.Clock
import io.cleancut.cuts.{CutArchive, OffsetEntry}

/**
 * Plans an epoch without new input for a run that begins behind a cut with rows in flight. By
 * itself Spark plans such an epoch only behind another one of the same run: the rows would wait for
 * new input, and a run that ends with its input would leave them where they are.
 */
private[files] object DrainPlan {
  private val logger = LoggerFactory.getLogger(getClass)

  /**
   * To be called before Spark reads the log of offsets.
   *
   * @param offsets
   *   `<checkpointLocation>/offsets`, and what writes there
   * @return
   *   the epoch that it has planned
   */
  def write(
      archive: CutArchive,
      offsets: Path,
      files: CheckpointFileManager,
      clock: Clock
  ): Option[Long] = for {
    cut <- archive.epochs().lastOption.flatMap(archive.read)
    if cut.channels.exists(_.deferred.rows > 0) && cut.offsets.nonEmpty
    epoch = cut.epoch + 1
    path = new Path(offsets, epoch.toString)
    // It was planned when the run before ended.
    if !files.exists(path)
    entry = OffsetEntry.withoutInput(cut.offsets, cut.commit, clock.wallMs())
    if create(path, entry, files)
  } yield {
    logger.info(s"Epoch $epoch takes up what is in flight behind epoch ${cut.epoch} of $offsets")
    epoch
  }

  /** Whether it was not there. */
  private def create(path: Path, entry: String, files: CheckpointFileManager): Boolean = try {
    val out = files.createAtomic(path, overwriteIfPossible = false)
    try {
      out.write(entry.getBytes(UTF_8))
      out.close()
      true
    } catch {
      case e: Throwable =>
        out.cancel()
        throw e
    }
  } catch { case _: FileAlreadyExistsException => false }
}
