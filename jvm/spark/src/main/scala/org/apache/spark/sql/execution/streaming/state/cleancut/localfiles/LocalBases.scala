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
 * Bases of stores that are far away, on the local disk of an executor: those that it has fetched,
 * and those that it has written itself. A store that comes back to it, or a run that begins again
 * in it, finds its base there and fetches what came after it. Those that were used last stay, two
 * of each store at most. Each block is compared with its checksum whenever it is read, and a file
 * that has a wrong one is given up for the object. Thread-safe.
 *
 * @param directory
 *   asked for at each new file; it goes with the process
 */
final class LocalBases(directory: () => Path) {
  import BaseFetch.{Effect, Event}
  import LocalBases._

  // In the order of their use.
  private val kept = mutable.LinkedHashMap.empty[Base, Copy]
  private val underWay = mutable.Map.empty[Base, Fetch]
  private val made = new AtomicLong

  /** Bytes of the files that are kept. */
  def sizeBytes: Long = synchronized(kept.valuesIterator.map(_.length).sum)

  def isHere(location: String, name: FrameName): Boolean =
    synchronized(kept.contains(Base(location, name)))

  /**
   * The bytes of a base; from the local disk if they are there. Two who open the same one share
   * what is fetched.
   *
   * @param boundBytes
   *   of all files that are kept after it
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

  /** Has a base here by the time it returns, unless there is no room for it. */
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

  /** A base that this process is about to write, of which a copy is made beside it. */
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
      new Fetch(base, newPath(), store, place, threads, boundBytes)(on(_, Event.HasArrived))
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
    // What has not arrived as a whole is of no use to the next reader.
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
        // Somebody has tidied up.
        case _: FileNotFoundException => None
      }
    }
  }

  private def forget(base: Base): Unit =
    synchronized(kept.remove(base).foreach(copy => delete(copy.path)))
}

object LocalBases {
  private val logger = LoggerFactory.getLogger(classOf[LocalBases])

  /** A task may still begin behind the one before the last. */
  private val OfEachStore = 2

  /** Whatever place it has: that changes when its segment is merged with others. */
  final private case class Base(location: String, name: FrameName) {
    def isOfSameStore(other: Base): Boolean =
      location == other.location && name.store == other.name.store
  }

  final private case class Copy(path: Path, length: Long)

  // Who has it open reads on: a file without a name lives until it is closed.
  private def delete(path: Path): Unit =
    try {
      Files.deleteIfExists(path)
      ()
    } catch { case _: IOException => () }

  /** A base on its way. */
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
   * A copy of a base that is written elsewhere. That is never in danger for its sake: where the
   * local disk is full there is no copy.
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

    /** What was written is the base as a whole, and counts. */
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
          logger.info(s"A base is not kept at $path: $e")
          hasFailed = true
          drop()
      }
    }
  }

  /** What is fetched; `end` is called once, when it is not needed any more. */
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

    override def areAtHand: Boolean = pieces.areAtHand
    override def whenAtHand(action: Runnable): Unit = pieces.whenAtHand(action)

    override def close(): Unit = {
      val isFirst = synchronized {
        val before = isClosed
        isClosed = true
        !before
      }
      if (isFirst) end()
    }
  }

  /** A file that is kept; `far` gives the bytes of the object itself. */
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

    override def areAtHand: Boolean = instead.forall(_.areAtHand)

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
