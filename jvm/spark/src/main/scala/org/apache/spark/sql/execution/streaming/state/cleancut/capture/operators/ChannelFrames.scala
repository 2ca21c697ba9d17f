package org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators

import java.io.{ByteArrayInputStream, InputStream}

import scala.util.Using

import org.apache.hadoop.conf.Configuration

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.catalyst.expressions.codegen.UnsafeRowWriter
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.RowBuffer
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.GroupedFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.framefiles.StoreFiles
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.{
  InitRequest,
  StoreContext
}
import org.apache.spark.sql.execution.streaming.state.cleancut.statestore.rows.SparkKeyOrder
import org.apache.spark.sql.types._

import io.cleancut.base.{Clock, StateVersion}
import io.cleancut.engine.{BlockEncoder, BlockQueue, FrameRecords}
import io.cleancut.engine.memory.{Bytes, Memory}
import io.cleancut.error.Errors
import io.cleancut.format.FrameKind
import io.cleancut.format.frame.{BlockScratch, FrameReader, FrameRequest, FrameWriter}
import io.cleancut.protocol.ChannelRows

/**
 * The frames of one shuffle input of one task. A frame has all in-flight rows, so it requires no
 * earlier frame. Its keys are the indexes of the rows, with the hash by which the exchange
 * partitioned them; its values are the rows as the exchange created them.
 */
final private[cleancut] class ChannelFrames(
    id: StateStoreId,
    schema: StructType,
    conf: StateStoreConf,
    hadoopConf: Configuration
) {
  import ChannelFrames._

  private val context = new StoreContext(
    InitRequest(
      id,
      KeySchema,
      schema,
      NoPrefixKeyStateEncoderSpec(KeySchema),
      usesFamilies = false,
      isMultiValued = false,
      conf,
      hadoopConf,
      schemas = None
    ),
    Clock.System
  )

  private val files: GroupedFiles = context.files match {
    case grouped: GroupedFiles => grouped
    case _                     =>
      val checkpoint = StoreFiles.checkpointOf(id.checkpointRootLocation)
      throw Errors.coordinatorMissing(checkpoint.toString)
  }

  /** All rows of a frame, in order. */
  def read(rows: ChannelRows): RowBuffer = rows match {
    case ChannelRows.Placed(version, place) =>
      files.place(version, FrameKind.Base, place)
      files.read(version, FrameKind.Base)(readRows)
    case ChannelRows.Held(version, bytes) =>
      val request = FrameRequest("the driver", context.store, version, FrameKind.Base)
      val scratch = BlockScratch.borrow()
      try
        Using.resource[InputStream, RowBuffer](new ByteArrayInputStream(bytes)) { in =>
          readRows(new FrameReader(request, in, scratch), scratch)
        }
      finally scratch.giveBack()
  }

  /** Makes rows outlive their executor, with the state version that this task creates. */
  def write(epoch: Long, rows: RowBuffer, hash: UnsafeRow => Int): Unit = {
    val version = StateVersion(epoch + 1, StateVersion.newId(context.clock))
    val file = files.create(version, FrameKind.Base)
    try {
      val family = context.families.default
      val keys = Map(family.id -> rows.size)
      val frame = context.frame(FrameKind.Base, version, None, Seq(family), keys, file)
      writeRows(frame, family.id, rows, hash)
      file.commit()
    } catch {
      case e: Throwable =>
        file.cancel()
        throw e
    }
  }

  private def readRows(reader: FrameReader, scratch: BlockScratch): RowBuffer = {
    val stored = SparkKeyOrder.structOf(reader.identity.families.head.valueSchema)
    val withoutNull = columnsWithoutNull(stored)
    val rows = RowBuffer.inTask()
    val row = new UnsafeRow(schema.length)
    val records = new FrameRecords(reader, scratch)
    while (records.advance()) {
      row.pointTo(records.value.base, records.value.offset, records.value.length)
      if (withoutNull.exists(row.isNullAt)) throw changed(stored)
      rows.add(row)
    }
    rows
  }

  /**
   * Columns in which a row of the frame may be null, but not in this query. Spark checks the state
   * schema of a changed query, but not the schema of its input.
   */
  private def columnsWithoutNull(stored: StructType): Seq[Int] = {
    // If two columns of one type are swapped, only the names differ.
    if (!DataType.equalsIgnoreNullability(stored, schema)) throw changed(stored)
    schema.indices.filter(i => stored(i).nullable && !schema(i).nullable)
  }

  private def changed(stored: StructType) = {
    val checkpoint = StoreFiles.checkpointOf(id.checkpointRootLocation).toString
    Errors.inFlightSchemaMismatch(checkpoint, context.store, stored.toDDL, schema.toDDL)
  }

  private def writeRows(
      frame: FrameWriter,
      family: Int,
      rows: RowBuffer,
      hash: UnsafeRow => Int
  ): Unit = {
    val queue = new BlockQueue(frame)
    try {
      val blocks = new BlockEncoder(Memory.access, queue)
      val key = new UnsafeRowWriter(KeySchema.length, 0)
      val keyBytes = new Bytes
      val value = new Bytes
      var number = 0L
      rows.iterator.foreach { row =>
        key.reset()
        key.zeroOutNullBytes()
        key.write(0, number)
        key.write(1, hash(row))
        pointTo(keyBytes, key.getRow)
        blocks.put(family, keyBytes, pointTo(value, row))
        number += 1
      }
      blocks.flush()
      queue.finish()
    } finally queue.close()
    frame.finish(rows.size)
  }

  private def pointTo(bytes: Bytes, row: UnsafeRow): Bytes =
    bytes.pointTo(row.getBaseObject, row.getBaseOffset, row.getSizeInBytes)
}

private[cleancut] object ChannelFrames {

  /** Key schema: the index of the row, and its hash. */
  val KeySchema: StructType = new StructType()
    .add("number", LongType, nullable = false)
    .add("hash", IntegerType, nullable = false)
}
