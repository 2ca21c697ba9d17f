package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{FileNotFoundException, IOException}

import io.cleancut.format.frame.FrameBytes
import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}

/** A range of an object in a nearby store, with positioned reads. */
final class RangeBytes(store: ObjectStore, key: ObjectKey, offset: Long, val length: Long)
    extends FrameBytes {
  override def read(at: Long, into: Array[Byte], count: Int): Unit =
    System.arraycopy(RangeBytes.read(store, key, offset + at, count), 0, into, 0, count)

  override def close(): Unit = ()
}

private[localfiles] object RangeBytes {

  /**
   * The bytes of a range.
   *
   * @throws java.io.IOException
   *   if the object ends before the range, or does not exist
   */
  def read(store: ObjectStore, key: ObjectKey, offset: Long, count: Int): Array[Byte] =
    store.getRange(key, offset, count) match {
      case RangeResult.Found(bytes)   => bytes
      case RangeResult.TooShort(size) =>
        throw new IOException(s"$key ends at $size, before ${offset + count}")
      case RangeResult.Missing => throw new FileNotFoundException(s"$key does not exist")
    }
}
