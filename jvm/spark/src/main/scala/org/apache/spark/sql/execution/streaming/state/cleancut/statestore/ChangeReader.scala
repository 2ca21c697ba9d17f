package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.{
  RowCodec,
  SparkKeyOrder
}

import io.cleancut.base.StateVersion
import io.cleancut.engine.{FrameRecords, RecordOperation}
import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.format.FrameKind
import io.cleancut.format.frame.FamilySchema

/**
 * The changes of one column family, version by version, from the deltas. If an epoch changed a key
 * several times, only the last change is returned, or all changes if the query ran with
 * `changeFeed=all`.
 *
 * @param deltas
 *   versions, oldest first; their deltas are on one chain
 * @param before
 *   the family before the first of them, if it existed
 */
final private[cleancut] class ChangeReader(
    context: StoreContext,
    deltas: Seq[StateVersion],
    before: Option[FamilySchema],
    familyName: String,
    startVersion: Long,
    endVersion: Long
) extends SparkChangeReader(context, familyName, startVersion, endVersion) {
  import ChangeReader._

  private val memory = Memory.access
  private var rest = deltas
  private var changes = Iterator.empty[Change]
  // A frame without families has those of the previous frames.
  private var family = before

  override def getNext(): Change = {
    while (!changes.hasNext && rest.nonEmpty) {
      changes = read(rest.head)
      rest = rest.tail
    }
    if (changes.hasNext) changes.next()
    else {
      finished = true
      null
    }
  }

  override def close(): Unit = ()

  /**
   * Reads a delta completely and closes its file: a delta has the changes of one epoch and is
   * small.
   */
  private def read(version: StateVersion): Iterator[Change] =
    context.files.read(version, FrameKind.Delta) { (reader, scratch) =>
      val schemas = reader.identity.families
      if (schemas.nonEmpty) family = schemas.find(_.name == familyName)
      val changes = Vector.newBuilder[Change]
      val records = new FrameRecords(reader, scratch)
      while (records.advance())
        family.filter(_.id == records.family).foreach(f => changes += change(f, records, version))
      changes.result().iterator
    }

  private def change(f: FamilySchema, records: FrameRecords, version: StateVersion): Change = {
    val kind = records.operation match {
      case RecordOperation.Put   => RecordType.PUT_RECORD
      case RecordOperation.Merge => RecordType.MERGE_RECORD
      case _                     => RecordType.DELETE_RECORD
    }
    val codec = RowCodec.of(f, context.request.schemas)
    val key = row(records.key, f.keySchema)(codec.keyAt)
    val value =
      if (records.operation == RecordOperation.Remove) null
      else row(records.value, f.valueSchema)(codec.valueAt)
    (kind, key, value, version.number - 1)
  }

  /** Copies the bytes, which are only valid until the next record. */
  private def row(bytes: Bytes, schema: String)(
      read: (AnyRef, Long, Int, UnsafeRow) => UnsafeRow
  ): UnsafeRow = {
    val reused = new UnsafeRow(SparkKeyOrder.structOf(schema).length)
    read(bytes.toArray(memory), Memory.ByteArrayOffset, bytes.length, reused)
  }
}

private[cleancut] object ChangeReader {
  private type Change = (RecordType.Value, UnsafeRow, UnsafeRow, Long)
}
