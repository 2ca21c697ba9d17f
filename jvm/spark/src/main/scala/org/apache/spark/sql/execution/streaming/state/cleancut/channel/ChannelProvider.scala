package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import java.util.UUID

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.SQLContext
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.Source
import org.apache.spark.sql.execution.streaming.runtime.StreamExecution
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.EpochSeal
import org.apache.spark.sql.execution.streaming.state.cleancut.sinks.{SinkDirectory, SinkRows}
import org.apache.spark.sql.sources.{
  BaseRelation,
  DataSourceRegister,
  RelationProvider,
  StreamSourceProvider
}
import org.apache.spark.sql.types.{DataType, StructType}

import io.cleancut.base.Clock
import io.cleancut.dataflow.{ChannelLog, ChannelRecords, OwnChannel, SentEpoch}
import io.cleancut.error.Errors
import io.cleancut.objectstore.BucketPath

/**
 * The data source of `format("cleancut-channel")`. Reads the output that one query sends to others,
 * as a stream, or selected epochs as a batch.
 */
final class ChannelProvider
    extends StreamSourceProvider
    with RelationProvider
    with DataSourceRegister {
  import ChannelProvider._

  override def shortName(): String = "cleancut-channel"

  override def sourceSchema(
      context: SQLContext,
      schema: Option[StructType],
      providerName: String,
      parameters: Map[String, String]
  ): (String, StructType) =
    (shortName(), new OpenChannel(context, schema, parameters, isBatch = false).rows.wholeSchema)

  override def createRelation(
      context: SQLContext,
      parameters: Map[String, String]
  ): BaseRelation = {
    val channel = new OpenChannel(context, None, parameters, isBatch = true)
    new ChannelRelation(context, channel.rows, channel.chosen)
  }

  override def createSource(
      context: SQLContext,
      metadataPath: String,
      schema: Option[StructType],
      providerName: String,
      parameters: Map[String, String]
  ): Source = {
    val channel = new OpenChannel(context, schema, parameters, isBatch = false)
    // The path is `sources/<number of the source>` in the checkpoint.
    val sourcePath = new Path(metadataPath)
    val checkpoint = sourcePath.getParent.getParent.toString
    val query = context.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)
    ChannelLog.register(channel.records, query, sourcePath.getName, checkpoint)
    if (OwnChannel.isOf(channel.records, query))
      OwnChannel.follow(channel.records, channel.operations(query))
    val pollMs = channel.options.pollMs.getOrElse(channel.pollMs)
    val log = new ChannelLog(channel.records, Clock.System, pollMs, math.max(pollMs, ListMs))
    val location = channel.records.location
    val source = new ChannelSource(
      location,
      log,
      channel.rows,
      channel.options.bounds,
      channel.options.isFeedback,
      channel.mustYield(query)
    )
    ChannelSource.register(query, location, source)
    source
  }
}

object ChannelProvider {

  /** Ten requests a second cost less than half a dollar a day even at the highest prices. */
  private val BucketPollMs = 100L
  private val FilePollMs = 5L
  private val ListMs = 10000L

  /** More entries than Spark's offset log keeps by default. */
  private val KeptEntries = 200L

  final private class OpenChannel(
      context: SQLContext,
      requestedSchema: Option[StructType],
      parameters: Map[String, String],
      isBatch: Boolean
  ) {
    val options: ChannelOptions = ChannelOptions.parse(parameters, isBatch)

    private val session = context.sparkSession match {
      case classic: SparkSession => classic
      case other => throw new IllegalArgumentException(s"not a session of this driver: $other")
    }

    val records: ChannelRecords = new StoreRecords(SinkRows.directory(session, options.path))

    /** The epochs that a batch reads. */
    val chosen: Seq[SentEpoch] = options.epochs.map { epoch =>
      val record = ChannelLog.read(records, epoch)
      record.getOrElse(throw Errors.channelExpired(records.location, epoch - 1, epoch))
    }

    val rows: ChannelRows = new ChannelRows(
      session,
      records.location,
      withoutTag(requestedSchema.getOrElse(sent)).asNullable,
      options.tag
    )

    /**
     * Whether more of the preferred channel is unread than allowed, so that nothing may be read
     * from this one.
     */
    def mustYield(query: String): () => Boolean = {
      val preferred = options.yieldsTo.map { case (path, above) =>
        new StoreRecords(SinkRows.directory(session, path)).location -> above
      }
      () =>
        preferred.exists { case (location, above) =>
          ChannelSource.waitingBytes(query, location) > above
        }
    }

    /** The operations in the offset log of a query that is about to run. */
    def operations(query: String): Seq[OwnChannel.Operation] = for {
      execution <- Option(
        session.sharedState.activeStreamingQueries.get(UUID.fromString(query))
      ).toSeq
      latest <- execution.offsetLog.getLatestBatchId().toSeq
      (operation, source) <- EpochSeal.operations(
        execution,
        math.max(0L, latest - KeptEntries) to latest
      )
    } yield OwnChannel.Operation(operation, source)

    def pollMs: Long =
      if (records.location.startsWith(s"${BucketPath.Scheme}:")) BucketPollMs else FilePollMs

    private def sent: StructType = chosen.lastOption.orElse(ChannelLog.newest(records)) match {
      case Some(epoch) => DataType.fromJson(epoch.schema).asInstanceOf[StructType]
      case None        => throw Errors.channelEmpty(records.location)
    }

    /** Spark passes the schema that it received before, which includes the tag. */
    private def withoutTag(schema: StructType) =
      StructType(schema.filterNot(field => options.tag.contains(field.name)))
  }

  final private class StoreRecords(directory: SinkDirectory) extends ChannelRecords {
    override val location: String = directory.location.stripSuffix("/")

    override def read(name: String): Option[Array[Byte]] = directory.read(name)

    override def names(folder: String): Seq[String] =
      directory.names(folder).linesIterator.filter(_.nonEmpty).toSeq

    override def create(name: String, body: Array[Byte]): Unit = {
      directory.create(name, body)
      ()
    }

    override def delete(name: String): Unit = directory.delete(name)

    override def replace(name: String, body: Array[Byte]): Unit = {
      directory.delete(name)
      directory.create(name, body)
      ()
    }
  }
}
