package io.cleancut.files

import java.io.{FileNotFoundException, IOException}
import java.nio.ByteBuffer
import java.nio.channels.FileChannel
import java.nio.file.{Files, Path, StandardOpenOption}
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ExecutionException, Executor}
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import io.cleancut.format.FrameBytes
import io.cleancut.objects.{ObjectKey, ObjectStore, RangeResult}

/**
 * A range of an object in a store that is far away, fetched in pieces into a local file: the piece
 * that is asked for at once, all others one after another beside it. The file has no name, so that
 * nothing is left behind however the process ends.
 *
 * @param directory
 *   where the file is made
 * @param threads
 *   who fetches
 */
final class PiecesOnDisk(
    store: ObjectStore,
    key: ObjectKey,
    offset: Long,
    val length: Long,
    directory: Path,
    threads: Executor,
    pieceBytes: Int = PiecesOnDisk.PieceBytes
) extends FrameBytes {
  private val pieces = ((length + pieceBytes - 1) / pieceBytes).toInt
  private val file = open()
  private val fetched = new ConcurrentHashMap[Int, CompletableFuture[Unit]]
  private val left = new AtomicInteger(pieces)
  private val next = new AtomicInteger(0)
  private val atHand = new CompletableFuture[Unit]
  private val failure = new AtomicReference[Throwable]
  @volatile private var isClosed = false

  for (_ <- 0 until PiecesOnDisk.Ahead) fetchNext()

  override def areAtHand: Boolean = left.get == 0

  override def whenAtHand(action: Runnable): Unit = {
    atHand.thenRun(action)
    ()
  }

  override def read(at: Long, into: Array[Byte], count: Int): Unit = {
    for (piece <- (at / pieceBytes).toInt to ((at + count - 1) / pieceBytes).toInt) await(piece)
    val buffer = ByteBuffer.wrap(into, 0, count)
    while (buffer.hasRemaining)
      if (file.read(buffer, at + buffer.position()) < 0) throw new IOException(s"$key was cut short")
  }

  override def close(): Unit = {
    isClosed = true
    file.close()
  }

  /** A piece that could not be fetched is asked for again by the next who wants it. */
  private def await(piece: Int): Unit =
    try fetch(piece).get()
    catch {
      case e: ExecutionException =>
        fetched.remove(piece)
        throw e.getCause
    }

  private def fetch(piece: Int): CompletableFuture[Unit] =
    fetched.computeIfAbsent(piece, _ => CompletableFuture.supplyAsync(() => take(piece), threads))

  /** Goes on with the rest in their order, until one fails. */
  private def fetchNext(): Unit = {
    val piece = next.getAndIncrement()
    if (piece < pieces && !isClosed && failure.get == null) {
      fetch(piece).whenComplete { (_, e) =>
        if (e == null) fetchNext() else failure.compareAndSet(null, e)
        ()
      }
      ()
    }
  }

  private def take(piece: Int): Unit = if (!isClosed) {
    val from = piece.toLong * pieceBytes
    val count = Math.min(pieceBytes.toLong, length - from).toInt
    store.getRange(key, offset + from, count) match {
      case RangeResult.Found(bytes) =>
        val buffer = ByteBuffer.wrap(bytes)
        while (buffer.hasRemaining) file.write(buffer, from + buffer.position())
      case RangeResult.TooShort(size) =>
        throw new IOException(s"$key ends at $size, and is read up to ${offset + from + count}")
      case RangeResult.Missing => throw new FileNotFoundException(s"$key is gone")
    }
    if (left.decrementAndGet() == 0) {
      atHand.complete(())
      ()
    }
  }

  private def open(): FileChannel = {
    val path = Files.createTempFile(directory, "cleancut-base-", ".part")
    try FileChannel.open(path, StandardOpenOption.READ, StandardOpenOption.WRITE)
    finally Files.delete(path)
  }
}

object PiecesOnDisk {

  /** A request takes about as long to begin as so much takes to come. */
  val PieceBytes: Int = 4 << 20

  /** Pieces on their way that nobody has asked for. */
  private val Ahead = 2
}
