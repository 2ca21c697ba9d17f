package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.IOException
import java.nio.file.Path
import java.util.concurrent.{CompletableFuture, ConcurrentHashMap, ExecutionException, Executor}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger}

import io.cleancut.format.frame.FrameBytes
import io.cleancut.objectstore.{ObjectKey, ObjectStore}

/**
 * A range of a remote object that is fetched in pieces into a local file: requested pieces
 * immediately, and all others one after another in the background.
 *
 * @param path
 *   path of the new file
 * @param threads
 *   threads of the requests
 * @param whole
 *   called once, when the file is complete
 */
final class PiecesOnDisk(
    store: ObjectStore,
    key: ObjectKey,
    offset: Long,
    val length: Long,
    path: Path,
    threads: Executor,
    pieceBytes: Int = PiecesOnDisk.PieceBytes
)(whole: => Unit)
    extends FrameBytes {
  private val pieces = ((length + pieceBytes - 1) / pieceBytes).toInt
  private val file = new LocalFile(path, isNew = true)
  private val fetched = new ConcurrentHashMap[Int, CompletableFuture[Unit]]
  private val left = new AtomicInteger(pieces)
  private val arrived = ConcurrentHashMap.newKeySet[Int]
  private val next = new AtomicInteger(0)
  private val atHand = new CompletableFuture[Unit]
  private val hasFailed = new AtomicBoolean
  @volatile private var isClosed = false

  for (_ <- 0 until PiecesOnDisk.Ahead) fetchNext()
  // A reader of a base reads its end first, then its beginning.
  fetch(pieces - 1)

  override def areAvailable: Boolean = atHand.isDone

  override def onAvailable(action: Runnable): Unit = {
    atHand.thenRun(action)
    ()
  }

  override def read(at: Long, into: Array[Byte], count: Int): Unit = {
    piecesOf(at, count.toLong).foreach(await)
    file.read(at, into, count)
  }

  /** The pieces with bytes of a range. */
  def piecesOf(at: Long, count: Long): Range =
    if (count <= 0) 0 until 0
    else (at / pieceBytes).toInt to ((at + count - 1) / pieceBytes).toInt

  /** Drops a fetched piece, so that the next read fetches it again. */
  def discard(piece: Int): Unit = {
    val known = fetched.get(piece)
    if (known != null && known.isDone) {
      fetched.remove(piece, known)
      ()
    }
  }

  override def close(): Unit = {
    isClosed = true
    file.close()
  }

  /** Waits for a piece. A failed piece is requested again by its next reader. */
  private def await(piece: Int): Unit = {
    val known = fetched.get(piece)
    if (known != null && known.isCompletedExceptionally) fetched.remove(piece, known)
    try fetch(piece).get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  private def fetch(piece: Int): CompletableFuture[Unit] =
    fetched.computeIfAbsent(piece, _ => CompletableFuture.supplyAsync(() => take(piece), threads))

  /** Continues with the other pieces in order, until one fails. */
  private def fetchNext(): Unit = {
    val piece = next.getAndIncrement()
    if (piece < pieces && !isClosed && !hasFailed.get) {
      fetch(piece).whenComplete { (_, e) =>
        if (e == null) fetchNext() else hasFailed.set(true)
      }
      ()
    }
  }

  private def take(piece: Int): Unit = {
    val from = piece.toLong * pieceBytes
    val count = Math.min(pieceBytes.toLong, length - from).toInt
    if (isClosed) throw new IOException(s"$key is closed")
    file.write(from, RangeBytes.read(store, key, offset + from, count))
    if (arrived.add(piece) && left.decrementAndGet() == 0) {
      whole
      atHand.complete(())
      ()
    }
  }
}

object PiecesOnDisk {

  /** A piece of this size takes about as long as the latency of a request. */
  val PieceBytes: Int = 4 << 20

  /** Largest number of pieces that are prefetched concurrently. */
  private val Ahead = 2
}
