package io.cleancut.files

import java.io.{FileNotFoundException, IOException}
import java.nio.file.{Files, Path}
import java.util.concurrent.Executor
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable

import io.cleancut.format.FrameBytes
import io.cleancut.objects.{ObjectKey, ObjectStore}

/**
 * Bases of a store that is far away, on the local disk of an executor: a store that comes back to
 * it, or a run that begins again in it, finds its base there and fetches what came after it. Those
 * that were used last stay. Each block is compared with its checksum whenever it is read, and a
 * file that has a wrong one is given up for the object. Thread-safe.
 *
 * @param directory
 *   asked for at each new file; it goes with the process
 */
final class LocalBases(directory: () => Path) {
  import LocalBases._

  // In the order of their use.
  private val kept = mutable.LinkedHashMap.empty[Range, Path]
  private val made = new AtomicLong

  /** Bytes of the files that are kept. */
  def sizeBytes: Long = synchronized(kept.keysIterator.map(_.length).sum)

  /**
   * The bytes of a range of an object that never changes; from the local disk if they are there.
   *
   * @param boundBytes
   *   of all files that are kept after it
   */
  def open(
      store: ObjectStore,
      key: ObjectKey,
      offset: Long,
      length: Long,
      threads: Executor,
      boundBytes: Long
  ): FrameBytes = {
    val range = Range(store.location, key, offset, length)
    val far = () => fetch(store, range, threads, boundBytes)
    take(range).fold[FrameBytes](far())(file => new Kept(file, length, () => forget(range), far))
  }

  private def fetch(
      store: ObjectStore,
      range: Range,
      threads: Executor,
      boundBytes: Long
  ): FrameBytes = {
    val path =
      directory().resolve(s"cleancut-base-${ProcessHandle.current.pid}-${made.incrementAndGet()}")
    val pieces =
      new PiecesOnDisk(store, range.key, range.offset, range.length, path, threads)(
        keep(range, path, boundBytes)
      )
    new Fetched(pieces, () => if (!isKept(path)) delete(path))
  }

  private def isKept(path: Path): Boolean = synchronized(kept.valuesIterator.contains(path))

  private def keep(range: Range, path: Path, boundBytes: Long): Unit = synchronized {
    kept.put(range, path).filter(_ != path).foreach(delete)
    while (kept.size > 0 && sizeBytes > boundBytes) kept.remove(kept.head._1).foreach(delete)
  }

  private def take(range: Range): Option[LocalFile] = synchronized {
    kept.remove(range).flatMap { path =>
      try {
        val file = new LocalFile(path, isNew = false)
        kept.put(range, path)
        Some(file)
      } catch {
        // Somebody has tidied up.
        case _: FileNotFoundException => None
      }
    }
  }

  private def forget(range: Range): Unit = synchronized(kept.remove(range).foreach(delete))

  // Who has it open reads on: a file without a name lives until it is closed.
  private def delete(path: Path): Unit =
    try {
      Files.deleteIfExists(path)
      ()
    } catch { case _: IOException => () }
}

object LocalBases {
  final private case class Range(location: String, key: ObjectKey, offset: Long, length: Long)

  /** What is fetched; `end` is called when it is not needed any more. */
  final private class Fetched(pieces: PiecesOnDisk, end: () => Unit) extends FrameBytes {
    override def length: Long = pieces.length

    override def read(offset: Long, into: Array[Byte], count: Int): Unit =
      pieces.read(offset, into, count)

    override def areAtHand: Boolean = pieces.areAtHand
    override def whenAtHand(action: Runnable): Unit = pieces.whenAtHand(action)

    override def close(): Unit = {
      pieces.close()
      end()
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
            case _: IOException if giveUp() => read(offset, into, count)
          }
      }

    override def areAtHand: Boolean = instead.forall(_.areAtHand)

    override def giveUp(): Boolean = {
      val isFirst = instead.isEmpty
      if (isFirst) {
        forget()
        instead = Some(far())
      }
      isFirst
    }

    override def close(): Unit = {
      file.close()
      instead.foreach(_.close())
    }
  }
}
