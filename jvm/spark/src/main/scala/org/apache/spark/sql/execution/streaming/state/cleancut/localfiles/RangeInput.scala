package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{FileNotFoundException, InputStream}
import java.util.concurrent.{CompletableFuture, ExecutionException, Executor}

import scala.collection.mutable

import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}

/**
 * Reads a range of an object in pieces; it ends at the end of the range or of the object.
 *
 * @param ahead
 *   executor that prefetches pieces, and their number; None fetches each piece when it is due
 */
final class RangeInput(
    store: ObjectStore,
    key: ObjectKey,
    offset: Long,
    length: Long,
    pieceBytes: Int,
    ahead: Option[(Executor, Int)] = None
) extends InputStream {
  private val coming = mutable.Queue.empty[CompletableFuture[Array[Byte]]]
  private var piece = Array.emptyByteArray
  private var at = 0
  private var requested = 0L

  override def read(): Int = if (advance()) {
    at += 1
    piece(at - 1) & 0xff
  } else -1

  override def read(bytes: Array[Byte], from: Int, count: Int): Int =
    if (count == 0) 0
    else if (advance()) {
      val got = Math.min(count, piece.length - at)
      System.arraycopy(piece, at, bytes, from, got)
      at += got
      got
    } else -1

  private def await(piece: CompletableFuture[Array[Byte]]): Array[Byte] =
    try piece.get()
    catch { case e: ExecutionException => throw e.getCause }

  /** Whether there is a byte to read. */
  private def advance(): Boolean = {
    if (at == piece.length && (coming.nonEmpty || requested < length)) {
      // The old piece is released before the wait, to limit the pieces in memory.
      piece = Array.emptyByteArray
      at = 0
      ask(1 + ahead.fold(0)(_._2))
      piece = await(coming.head)
      coming.dequeue()
    }
    at < piece.length
  }

  /** Requests pieces until `pieces` are pending, or all are requested. */
  private def ask(pieces: Int): Unit = while (coming.size < pieces && requested < length) {
    val from = offset + requested
    val wanted = Math.min(pieceBytes.toLong, length - requested).toInt
    coming += ahead.fold(CompletableFuture.completedFuture(fetch(from, wanted))) {
      case (executor, _) => CompletableFuture.supplyAsync(() => fetch(from, wanted), executor)
    }
    requested += wanted
  }

  private def fetch(from: Long, wanted: Int): Array[Byte] =
    store.getRange(key, from, wanted) match {
      case RangeResult.Found(bytes)   => bytes
      case RangeResult.TooShort(size) => shorter(from, wanted, size)
      case RangeResult.Missing        => throw new FileNotFoundException(s"$key does not exist")
    }

  // The rest of a truncated object; the reader detects what is missing.
  private def shorter(from: Long, wanted: Int, objectBytes: Long): Array[Byte] = {
    val left = Math.min(objectBytes - from, wanted.toLong)
    if (left <= 0) Array.emptyByteArray
    else
      store.getRange(key, from, left.toInt) match {
        case RangeResult.Found(bytes) => bytes
        case _                        => Array.emptyByteArray
      }
  }
}
