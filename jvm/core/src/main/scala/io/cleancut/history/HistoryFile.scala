package io.cleancut.history

import java.io.ByteArrayOutputStream

import scala.util.Using

import org.apache.hadoop.conf.Configuration
import org.apache.parquet.example.data.Group
import org.apache.parquet.example.data.simple.SimpleGroupFactory
import org.apache.parquet.hadoop.ParquetReader
import org.apache.parquet.hadoop.api.{InitContext, ReadSupport}
import org.apache.parquet.hadoop.example.{ExampleParquetWriter, GroupReadSupport}
import org.apache.parquet.hadoop.metadata.CompressionCodecName
import org.apache.parquet.io._
import org.apache.parquet.schema.{LogicalTypeAnnotation, MessageType, Types}
import org.apache.parquet.schema.LogicalTypeAnnotation.TimeUnit.MILLIS
import org.apache.parquet.schema.PrimitiveType.PrimitiveTypeName.{BINARY, INT64}

import io.cleancut.format.cut.ShareCosts

/**
 * Records of epochs in a Parquet file, so that Parquet readers can query them: a column for each
 * frequently used figure, and the complete record as JSON. See `docs/FORMAT.md`, "History".
 */
object HistoryFile {
  private val Record = "record"
  private val VersionKey = "cleancut.history.version"

  private val schema: MessageType = {
    val text = LogicalTypeAnnotation.stringType
    val message = Types.buildMessage()
    def number(name: String) = message.optional(INT64).named(name)
    def words(name: String) = message.optional(BINARY).as(text).named(name)
    message.required(INT64).named("epoch")
    message.required(INT64).named("generation")
    message
      .required(INT64)
      .as(LogicalTypeAnnotation.timestampType(true, MILLIS))
      .named("written")
    Columns.foreach { case (name, _) => number(name) }
    words("slow_kind")
    words("slow_detail")
    words(Record)
    message.named("history")
  }

  /** Columns in addition to those of every record. */
  private lazy val Columns: Seq[(String, EpochRecord => Option[Long])] = {
    def cost(figure: ShareCosts => Long): EpochRecord => Option[Long] =
      _.costs.map(costs => figure(costs.all))
    Seq(
      "duration_ms" -> (_.durationMs),
      "source_ms" -> (_.timings.get("sourceMs")),
      "plan_ms" -> (_.timings.get("planMs")),
      "map_ms" -> (_.timings.get("mapMs")),
      "state_ms" -> (_.timings.get("stateMs")),
      "sink_ms" -> (_.timings.get("sinkMs")),
      "gate_ms" -> (_.timings.get("gateMs")),
      "cut_ms" -> (_.timings.get("cutMs")),
      "alignment_ms" -> (_.alignmentMs),
      "stores" -> (record => Some(record.stores.toLong)),
      "rows_in_flight" -> (record => Some(record.rowsInFlight)),
      "requests" -> cost(_.total.requests),
      "retries" -> cost(_.total.retries),
      "bytes_sent" -> cost(_.bytesSent),
      "bytes_received" -> cost(_.bytesReceived)
    )
  }

  /** @param records in ascending order of epochs */
  def write(records: Seq[EpochRecord]): Array[Byte] =
    // The tasks of an epoch are only of interest if it was slow.
    write(records, record => EpochRecordJson.write(record, withCells = record.slow.isDefined))

  private[history] def write(
      records: Seq[EpochRecord],
      toJson: EpochRecord => String
  ): Array[Byte] = {
    val out = new ToMemory
    val builder = ExampleParquetWriter
      .builder(out)
      .withType(schema)
      .withConf(new Configuration(false))
      .withCompressionCodec(CompressionCodecName.ZSTD)
      .withExtraMetaData(java.util.Map.of(VersionKey, EpochRecordJson.Version.toString))
    val factory = new SimpleGroupFactory(schema)
    Using.resource(builder.build()) { writer =>
      records.foreach(record => writer.write(row(factory.newGroup(), record, toJson(record))))
    }
    out.bytes.toByteArray
  }

  private def row(group: Group, record: EpochRecord, json: String): Group = {
    group.add("epoch", record.epoch)
    group.add("generation", record.run.generation)
    group.add("written", record.writtenMs)
    for ((name, column) <- Columns; value <- column(record)) group.add(name, value)
    record.slow.foreach { slow =>
      group.add("slow_kind", SlowEpochs.storedName(slow.kind))
      group.add("slow_detail", slow.detail)
    }
    group.add(Record, json)
    group
  }

  /**
   * The records of a file, or for each row the reason why it is invalid, for example a later
   * version.
   */
  def read(bytes: Array[Byte]): Seq[Either[String, EpochRecord]] = {
    val reader = new ParquetReader.Builder[Group](new InMemory(bytes)) {
      override def getReadSupport: ReadSupport[Group] = new RecordsOnly
    }
    Using.resource(reader.withConf(new Configuration(false)).build()) { rows =>
      Iterator
        .continually(rows.read())
        .takeWhile(_ != null)
        .map(row => EpochRecordJson.read(row.getString(Record, 0)))
        .toVector
    }
  }

  /** Reads only the JSON column, which has all data. */
  private class RecordsOnly extends GroupReadSupport {
    override def init(context: InitContext): ReadSupport.ReadContext = {
      val record = schema.getFields.get(schema.getFieldIndex(Record))
      new ReadSupport.ReadContext(new MessageType(schema.getName, record))
    }
  }

  private class ToMemory extends OutputFile {
    val bytes = new ByteArrayOutputStream
    override def create(blockSizeHint: Long): PositionOutputStream = new PositionOutputStream {
      override def getPos: Long = bytes.size.toLong
      override def write(byte: Int): Unit = bytes.write(byte)
      override def write(from: Array[Byte], offset: Int, length: Int): Unit =
        bytes.write(from, offset, length)
    }
    override def createOrOverwrite(blockSizeHint: Long): PositionOutputStream =
      create(blockSizeHint)
    override def supportsBlockSize: Boolean = false
    override def defaultBlockSize: Long = 0L
  }

  private class InMemory(bytes: Array[Byte]) extends InputFile {
    override def getLength: Long = bytes.length.toLong
    override def newStream(): SeekableInputStream = {
      val in = new SeekableBytes(bytes)
      new DelegatingSeekableInputStream(in) {
        override def getPos: Long = in.position
        override def seek(to: Long): Unit = in.seek(to)
      }
    }
  }

  private class SeekableBytes(bytes: Array[Byte]) extends java.io.ByteArrayInputStream(bytes) {
    def position: Long = pos.toLong
    def seek(to: Long): Unit = pos = Math.toIntExact(to)
  }
}
