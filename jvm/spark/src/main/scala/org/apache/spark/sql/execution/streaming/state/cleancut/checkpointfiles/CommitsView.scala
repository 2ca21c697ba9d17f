package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.ByteArrayOutputStream
import java.nio.charset.StandardCharsets.UTF_8

import scala.util.Try

import org.apache.hadoop.fs._

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointlogs.{
  CheckpointLogs,
  DelegatedClose
}
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.QueryCommitter

import io.cleancut.coordinator.state.Begun
import io.cleancut.cutstore.CutArchive

/**
 * Spark's commit log of a query whose epochs are committed by cuts: an entry exists if and only if
 * its cut exists or is being written, because the cut contains it. Entries before the first cut are
 * separate files.
 *
 * Deleting an entry of a cut has no effect: the coordinator decides how long cuts are retained, by
 * the same number of epochs as Spark.
 *
 * @param committed
 *   called after an epoch of this run is committed
 */
final class CommitsView(
    directory: Path,
    files: CheckpointFileManager,
    archive: CutArchive,
    committer: QueryCommitter,
    committed: () => Unit = () => ()
) extends DelegatedClose {

  override protected def delegate: CheckpointFileManager = files

  // The entry that Spark has just written or read, because Spark requests it again.
  @volatile private var latest = Option.empty[(Long, String)]
  @volatile private var plain = Option.empty[Set[Long]]
  @volatile private var listed = Option.empty[Long]

  // Until the first commit of this run, the cuts are those that its start has found.
  @volatile private var begun = Option.empty[Begun]
  @volatile private var hasCommitted = false

  override def createAtomic(
      path: Path,
      overwriteIfPossible: Boolean
  ): CheckpointFileManager.CancellableFSDataOutputStream = epochOf(path) match {
    case None        => files.createAtomic(path, overwriteIfPossible)
    case Some(epoch) =>
      new Entry(bytes => {
        val entry = new String(bytes, UTF_8)
        if (latest.exists(_._1 >= epoch)) throw new FileAlreadyExistsException(s"$path exists")
        latest = Some(epoch -> committer.commit(epoch, entry)(_ => ()))
        hasCommitted = true
        committed()
        committer.pause()
      })
  }

  override def open(path: Path): FSDataInputStream =
    epochOf(path).flatMap(entry).fold(files.open(path)) { text =>
      new FSDataInputStream(new BytesInput(text.getBytes(UTF_8)))
    }

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    begun = committer.begin()
    // An earlier run may still commit the next epoch, which this run must also execute.
    val known = begun.map(run => (latest.map(_._1) ++ Some(run.committed)).max)
    if (path != directory) files.list(path, filter)
    else {
      val others = files.list(path, (_: Path) => true)
      val names = others.map(_.getPath.getName).toSet
      plain = Some(names.flatMap(name => Try(name.toLong).toOption))
      val committed = epochs(known).filterNot(epoch => names(epoch.toString)).map { epoch =>
        new FileStatus(0L, false, 1, 0L, 0L, new Path(directory, epoch.toString))
      }
      val all = others ++ committed
      listed = Some(all.flatMap(_.getPath.getName.toLongOption).maxOption.getOrElse(-1L))
      all.filter(status => filter.accept(status.getPath))
    }
  }

  override def exists(path: Path): Boolean = epochOf(path) match {
    // For Spark, a log without a directory is empty.
    case None        => path == directory || files.exists(path)
    case Some(epoch) =>
      // The commit itself detects another commit and its owner.
      latest.exists(_._1 == epoch) ||
      ((latest.map(_._1) ++ listed).maxOption
        .forall(_ >= epoch) && (entry(epoch).isDefined || isPlain(epoch, path)))
  }

  override def delete(path: Path): Unit =
    if (epochOf(path).forall(isPlain(_, path))) files.delete(path)

  override def mkdirs(path: Path): Unit = files.mkdirs(path)

  override def isLocal: Boolean = files.isLocal

  override def createCheckpointDirectory(): Path = files.createCheckpointDirectory()

  private def epochs(known: Option[Long]): Seq[Long] = {
    val atStart = begun.filterNot(_ => hasCommitted).flatMap(_.cutEpochs)
    atStart.getOrElse(archive.cuts.epochs()).filter(epoch => known.forall(epoch <= _))
  }

  private def entry(epoch: Long): Option[String] =
    latest.collect { case (`epoch`, text) => text }.orElse {
      val atStart = begun.flatMap(_.cut).filter(_.epoch == epoch)
      val inCut =
        if (plain.exists(_(epoch))) None
        else atStart.orElse(archive.cuts.head(epoch)).map(_.commit)
      inCut.filter(_ => latest.forall(_._1 < epoch)).foreach(text => latest = Some(epoch -> text))
      inCut
    }

  private def isPlain(epoch: Long, path: Path): Boolean =
    plain.fold(files.exists(path))(_(epoch))

  private def epochOf(path: Path): Option[Long] = CheckpointLogs.entryOf(directory, path)
}

/** Passes on the written bytes when the stream is closed. */
final private class Entry(commit: Array[Byte] => Unit, bytes: ByteArrayOutputStream)
    extends CheckpointFileManager.CancellableFSDataOutputStream(bytes) {
  private var isDone = false

  def this(commit: Array[Byte] => Unit) = this(commit, new ByteArrayOutputStream)

  override def close(): Unit = if (!isDone) {
    isDone = true
    commit(bytes.toByteArray)
  }

  override def cancel(): Unit = isDone = true
}
