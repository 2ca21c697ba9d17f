package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.hadoop.fs.{FileStatus, FSDataInputStream, Path, PathFilter}

import io.cleancut.base.Clock
import io.cleancut.objectstore.ObjectStore

/**
 * One of Spark's logs: numbered entries, each created once, by the run that has listed the log.
 *
 * Spark checks whether each entry exists, writes it, and reads it back one epoch later. Once this
 * run has written an entry, no request checks for entries after the last known one: if another run
 * has written it, the conditional create detects that. Before the first write, an earlier run may
 * have continued after the listing, and Spark reads entries that its other logs reference.
 *
 * @param noted
 *   called with the number and the text of each written entry
 */
final class ObjectLog(
    directory: Path,
    store: ObjectStore,
    clock: Clock,
    noted: (Long, String) => Unit
) extends ObjectFileManager(directory, store, () => (), clock) {
  import ObjectLog._

  // All guarded by this.
  private var last = Option.empty[Long]
  private var hasWritten = false
  private val recent = mutable.LinkedHashMap.empty[String, Array[Byte]]

  override def list(path: Path, filter: PathFilter): Array[FileStatus] = {
    val all = super.list(path, (_: Path) => true)
    if (path == directory) recordLatest(all.flatMap(status => numberOf(status.getPath)).maxOption)
    all.filter(status => filter.accept(status.getPath))
  }

  override def exists(path: Path): Boolean =
    isRecent(path) || (!isBehindLast(path) && {
      val exists = super.exists(path)
      // Spark does not list a log without directory.
      if (path == directory && !exists) recordLatest(None)
      exists
    })

  override def open(path: Path): FSDataInputStream =
    synchronized(recent.get(path.getName)).filter(_ => path.getParent == directory) match {
      case Some(bytes) => new FSDataInputStream(new BytesInput(bytes))
      case None        => super.open(path)
    }

  override def delete(path: Path): Unit = {
    synchronized(recent -= path.getName)
    super.delete(path)
  }

  override protected def written(path: Path, bytes: Array[Byte]): Unit =
    numberOf(path).foreach { number =>
      synchronized {
        hasWritten = true
        last = last.map(Math.max(_, number))
        if (bytes.length <= MaxRecentBytes) recent(path.getName) = bytes
        if (recent.size > MaxRecent) recent -= recent.head._1
      }
      noted(number, new String(bytes, UTF_8))
    }

  private def recordLatest(latest: Option[Long]): Unit = synchronized {
    last = Some(Math.max(last.getOrElse(-1L), latest.getOrElse(-1L)))
  }

  private def isRecent(path: Path): Boolean =
    path.getParent == directory && synchronized(recent.contains(path.getName))

  private def isBehindLast(path: Path): Boolean = {
    val known = synchronized(last.filter(_ => hasWritten))
    numberOf(path).exists(number => known.exists(_ < number))
  }

  private def numberOf(path: Path): Option[Long] =
    if (path.getParent != directory) None
    else path.getName.stripSuffix(Compacted).toLongOption
}

private object ObjectLog {

  /** Suffix of Spark's compacted entries. */
  private val Compacted = ".compact"

  /** Spark reads an entry one epoch after its own. */
  private val MaxRecent = 3
  private val MaxRecentBytes = 1 << 20
}
