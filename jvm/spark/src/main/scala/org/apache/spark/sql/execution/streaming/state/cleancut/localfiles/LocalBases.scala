package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{Files, Path}
import java.util.concurrent.Executor
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import org.slf4j.LoggerFactory

import io.cleancut.format.{FrameName, FramePlace}
import io.cleancut.format.frame.FrameBytes
import io.cleancut.objectstore.{ObjectKey, ObjectStore}

/**
 * The local cache of an executor for bases in a remote store: bases that it has fetched or written.
 * A store that returns to the executor, or a new run, finds its base there and fetches only later
 * frames. The cache evicts the least recently used bases, and has at most two per store. Each block
 * is compared with its checksum whenever it is read; after a mismatch the object is read instead of
 * the file. Thread-safe.
 *
 * @param directory
 *   directory of new files, evaluated for each file; it is deleted with the process
 */
final class LocalBases(directory: () => Path) {
  import BaseFetch.{Effect, Event}
  import LocalBases._

  // In order of use.
  private val kept = mutable.LinkedHashMap.empty[Base, Copy]
  private val underWay = mutable.Map.empty[Base, Fetch]
  private val made = new AtomicLong

  /** Bytes of the cached files. */
  def sizeBytes: Long = synchronized(kept.valuesIterator.map(_.length).sum)

  def isHere(location: String, name: FrameName): Boolean =
    synchronized(kept.contains(Base(location, name)))

  /**
   * The bytes of a base, from the local disk if it is cached. Concurrent readers of a base share
   * the fetch.
   *
   * @param boundBytes
   *   limit of all cached files afterwards
   */
  def open(
      store: ObjectStore,
      name: FrameName,
      place: FramePlace,
      threads: Executor,
      boundBytes: Long
  ): FrameBytes = {
    val base = Base(store.location, name)
    val far = () => fetched(base, store, place, threads, boundBytes)
    take(base, place.length).fold[FrameBytes](far()) { file =>
      new Kept(file, place.length, () => forget(base), far)
    }
  }

  /** Fetches a base into the cache before it returns, unless there is no space. */
  def fetch(
      store: ObjectStore,
      name: FrameName,
      place: FramePlace,
      threads: Executor,
      boundBytes: Long
  ): Unit =
    if (!isHere(store.location, name) && place.length <= boundBytes) {
      val bytes = open(store, name, place, threads, boundBytes)
      val one = new Array[Byte](1)
      try
        for (at <- 0L until place.length by PiecesOnDisk.PieceBytes.toLong) bytes.read(at, one, 1)
      finally bytes.close()
    }

  /** A copy of a base that this process is about to write. */
  def copyOf(location: String, name: FrameName, boundBytes: Long): OwnBase =
    new OwnBase(newPath(), (path, length) => keep(Base(location, name), path, length, boundBytes))

  private def fetched(
      base: Base,
      store: ObjectStore,
      place: FramePlace,
      threads: Executor,
      boundBytes: Long
  ): FrameBytes = synchronized {
    val fetch = underWay.getOrElseUpdate(
      base,
      new Fetch(base, newPath(), store, place, threads, boundBytes)(on(_, Event.Completed))
    )
    on(fetch, Event.Opened)
    new Fetched(fetch.pieces, () => on(fetch, Event.Closed))
  }

  private def on(fetch: Fetch, event: Event): Unit = synchronized {
    val (next, effects) = BaseFetch.decide(fetch.state, event)
    fetch.state = next
    effects.foreach {
      case Effect.Keep   => keep(fetch.base, fetch.path, fetch.length, fetch.boundBytes)
      case Effect.Delete => delete(fetch.path)
      case Effect.Stop   => fetch.pieces.close()
    }
    // An incomplete file is useless for the next reader.
    if (!next.isComing) underWay.filterInPlace((_, other) => other ne fetch)
    ()
  }

  private def newPath(): Path =
    directory().resolve(s"cleancut-base-${ProcessHandle.current.pid}-${made.incrementAndGet()}")

  private def keep(base: Base, path: Path, length: Long, boundBytes: Long): Unit = synchronized {
    kept.put(base, Copy(path, length)).filter(_.path != path).foreach(copy => delete(copy.path))
    val ofStore = kept.keysIterator.filter(_.isOfSameStore(base)).toSeq
    ofStore.sortBy(_.name.version.number).dropRight(OfEachStore).foreach(forget)
    while (kept.nonEmpty && sizeBytes > boundBytes) forget(kept.head._1)
  }

  private def take(base: Base, length: Long): Option[LocalFile] = synchronized {
    kept.remove(base).flatMap { copy =>
      try {
        val file = new LocalFile(copy.path, isNew = false)
        kept.put(base, copy)
        Option.when(copy.length == length)(file).orElse {
          file.close()
          None
        }
      } catch {
        // The file was deleted externally.
        case _: FileNotFoundException => None
      }
    }
  }

  private def forget(base: Base): Unit =
    synchronized(kept.remove(base).foreach(copy => delete(copy.path)))
}

object LocalBases {
  private val logger = LoggerFactory.getLogger(classOf[LocalBases])

  /** Bases per store: a task may still continue from the second last one. */
  private val OfEachStore = 2

  /** Regardless of its location, which changes when its segment is merged with others. */
  final private case class Base(location: String, name: FrameName) {
    def isOfSameStore(other: Base): Boolean =
      location == other.location && name.store == other.name.store
  }

  final private case class Copy(path: Path, length: Long)

  // Open readers continue: an unlinked file exists until it is closed.
  private def delete(path: Path): Unit =
    try {
      Files.deleteIfExists(path)
      ()
    } catch { case _: IOException => () }

  /** A base that is being fetched. */
  final private class Fetch(
      val base: Base,
      val path: Path,
      store: ObjectStore,
      place: FramePlace,
      threads: Executor,
      val boundBytes: Long
  )(arrived: Fetch => Unit) {
    // Guarded by the lock of the bases.
    var state = BaseFetch.Begun
    def length: Long = place.length

    val pieces =
      new PiecesOnDisk(store, ObjectKey(place.segment), place.offset, length, path, threads)(
        arrived(this)
      )
  }

  /**
   * A copy of a base that is written elsewhere. The copy never affects the original: if the local
   * disk is full, there is no copy.
   */
  final class OwnBase private[LocalBases] (path: Path, keep: (Path, Long) => Unit) {
    private var file = Option.empty[LocalFile]
    private var length = 0L
    private var hasFailed = false

    def write(bytes: Array[Byte]): Unit = guarded {
      val out = file.getOrElse(new LocalFile(path, isNew = true))
      file = Some(out)
      out.write(length, bytes)
      length += bytes.length
    }

    /** The copy is complete and becomes visible. */
    def keep(): Unit = {
      guarded(file.foreach(_.close()))
      if (file.isDefined && !hasFailed) keep(path, length)
    }

    def drop(): Unit = {
      file.foreach(_.close())
      delete(path)
    }

    private def guarded(body: => Unit): Unit = if (!hasFailed) {
      try body
      catch {
        case e: IOException =>
          logger.info(s"A base was not cached at $path: $e")
          hasFailed = true
          drop()
      }
    }
  }

  /** A fetched base; `end` is called once, when it is closed. */
  final private class Fetched(pieces: PiecesOnDisk, end: () => Unit) extends FrameBytes {
    private var isClosed = false
    private val givenUp = mutable.Set.empty[Int]

    override def length: Long = pieces.length

    override def giveUp(offset: Long, count: Long): Boolean = {
      val again = pieces.piecesOf(offset, count).filterNot(givenUp)
      givenUp ++= again
      again.foreach(pieces.discard)
      again.nonEmpty
    }

    override def read(offset: Long, into: Array[Byte], count: Int): Unit =
      pieces.read(offset, into, count)

    override def areAvailable: Boolean = pieces.areAvailable
    override def onAvailable(action: Runnable): Unit = pieces.onAvailable(action)

    override def close(): Unit = {
      val isFirst = synchronized {
        val before = isClosed
        isClosed = true
        !before
      }
      if (isFirst) end()
    }
  }

  /** A cached file; `far` returns the bytes of the object itself. */
  final private class Kept(
      file: LocalFile,
      val length: Long,
      forget: () => Unit,
      far: () => FrameBytes
  ) extends FrameBytes {
    private var instead = Option.empty[FrameBytes]

    override def read(offset: Long, into: Array[Byte], count: Int): Unit =
      instead match {
        case Some(bytes) => bytes.read(offset, into, count)
        case None        =>
          try file.read(offset, into, count)
          catch {
            case _: IOException if giveUp(offset, count.toLong) => read(offset, into, count)
          }
      }

    override def areAvailable: Boolean = instead.forall(_.areAvailable)

    override def giveUp(offset: Long, count: Long): Boolean = instead match {
      case Some(bytes) => bytes.giveUp(offset, count)
      case None        =>
        forget()
        instead = Some(far())
        true
    }

    override def close(): Unit = {
      file.close()
      instead.foreach(_.close())
    }
  }
}
