package org.apache.spark.sql.execution.streaming.state.cleancut.localfiles

import java.io.{FileNotFoundException, IOException}

import io.cleancut.format.FrameBytes
import io.cleancut.objectstore.{ObjectKey, ObjectStore, RangeResult}

/** A range of an object in a store that is near, read where it is asked for. */
final class RangeBytes(store: ObjectStore, key: ObjectKey, offset: Long, val length: Long)
    extends FrameBytes {
  override def read(at: Long, into: Array[Byte], count: Int): Unit =
    store.getRange(key, offset + at, count) match {
      case RangeResult.Found(bytes)   => System.arraycopy(bytes, 0, into, 0, count)
      case RangeResult.TooShort(size) => throw new IOException(s"$key ends at $size")
      case RangeResult.Missing        => throw new FileNotFoundException(s"$key is gone")
    }

  override def close(): Unit = ()
}
