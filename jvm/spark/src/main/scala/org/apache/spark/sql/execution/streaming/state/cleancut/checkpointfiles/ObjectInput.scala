package org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles

import java.io.{EOFException, FileNotFoundException}

import org.apache.hadoop.fs.FSInputStream

import io.cleancut.objectstore.{ObjectKey, ObjectStore, Piece}

/**
 * Reads an object in pieces. The first piece, which opens it, contains a small object completely,
 * so reading it takes one request.
 */
final private class ObjectInput private (store: ObjectStore, key: ObjectKey, first: Piece)
    extends FSInputStream {
  import ObjectInput._

  private var piece = first
  private var position = 0L

  override def read(): Int = {
    val one = new Array[Byte](1)
    if (read(one, 0, 1) < 0) -1 else one(0) & 0xff
  }

  override def read(bytes: Array[Byte], offset: Int, length: Int): Int =
    if (length == 0) 0
    else if (position >= first.objectBytes) -1
    else {
      if (!piece.holds(position)) piece = fetch(position)
      val at = (position - piece.offset).toInt
      val count = Math.min(length, piece.bytes.length - at)
      System.arraycopy(piece.bytes, at, bytes, offset, count)
      position += count
      count
    }

  override def available(): Int =
    if (piece.holds(position)) (piece.offset + piece.bytes.length - position).toInt else 0

  override def seek(to: Long): Unit = {
    if (to < 0 || to > first.objectBytes)
      throw new EOFException(s"no byte $to in $key of ${first.objectBytes} bytes")
    position = to
  }

  override def getPos: Long = position

  override def seekToNewSource(target: Long): Boolean = false

  private def fetch(from: Long): Piece =
    store.getPiece(key, from, PieceBytes).getOrElse {
      throw new FileNotFoundException(s"$key was deleted while it was read")
    }
}

private object ObjectInput {
  private val PieceBytes = 8 << 20

  /** None if the object does not exist. */
  def open(store: ObjectStore, key: ObjectKey): Option[ObjectInput] =
    store.getPiece(key, 0L, PieceBytes).map(new ObjectInput(store, key, _))
}
