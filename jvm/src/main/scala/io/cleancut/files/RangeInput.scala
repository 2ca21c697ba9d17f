package io.cleancut.files

import java.io.{FileNotFoundException, InputStream}

import io.cleancut.objects.{ObjectKey, ObjectStore, RangeResult}

/** A range of an object, a piece at a time; it ends where the range or the object does. */
final class RangeInput(
    store: ObjectStore,
    key: ObjectKey,
    offset: Long,
    length: Long,
    pieceBytes: Int
) extends InputStream {
  private var piece = Array.emptyByteArray
  private var at = 0
  private var fetched = 0L

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

  /** Whether there is a byte to read. */
  private def advance(): Boolean = {
    if (at == piece.length && fetched < length) {
      val wanted = Math.min(pieceBytes.toLong, length - fetched).toInt
      piece = store.getRange(key, offset + fetched, wanted) match {
        case RangeResult.Found(bytes)   => bytes
        case RangeResult.TooShort(size) => shorter(size)
        case RangeResult.Missing        => throw new FileNotFoundException(s"$key is gone")
      }
      at = 0
      fetched += wanted
    }
    at < piece.length
  }

  // What is left of an object that was cut short; its reader finds out what is missing.
  private def shorter(objectBytes: Long): Array[Byte] = {
    val left = Math.min(objectBytes - offset - fetched, pieceBytes.toLong)
    if (left <= 0) Array.emptyByteArray
    else
      store.getRange(key, offset + fetched, left.toInt) match {
        case RangeResult.Found(bytes) => bytes
        case _                        => Array.emptyByteArray
      }
  }
}
