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
 * What Spark knows as `format("cleancut-channel")`: reads what one query sends to others, as a
 * stream, or in a batch the epochs that are named.
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
    (shortName(), new Opened(context, schema, parameters, isBatch = false).rows.wholeSchema)

  override def createRelation(
      context: SQLContext,
      parameters: Map[String, String]
  ): BaseRelation = {
    val channel = new Opened(context, None, parameters, isBatch = true)
    new ChannelRelation(context, channel.rows, channel.chosen)
  }

  override def createSource(
      context: SQLContext,
      metadataPath: String,
      schema: Option[StructType],
      providerName: String,
      parameters: Map[String, String]
  ): Source = {
    val channel = new Opened(context, schema, parameters, isBatch = false)
    // Below `sources` in the checkpoint, by the number of the source.
    val place = new Path(metadataPath)
    val checkpoint = place.getParent.getParent.toString
    val query = context.sparkContext.getLocalProperty(StreamExecution.QUERY_ID_KEY)
    ChannelLog.register(channel.records, query, place.getName, checkpoint)
    if (OwnChannel.isOf(channel.records, query))
      OwnChannel.follow(channel.records, channel.acts(query))
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

  /** Ten requests a second cost less than half a dollar a day where they are dearest. */
  private val PollOfBucketMs = 100L
  private val PollOfFilesMs = 5L
  private val ListMs = 10000L

  /** Of Spark's offset log, by default, with some to spare. */
  private val KeptEntries = 200L

  final private class Opened(
      context: SQLContext,
      asked: Option[StructType],
      parameters: Map[String, String],
      isBatch: Boolean
  ) {
    val options: ChannelOptions = ChannelOptions.parse(parameters, isBatch)

    private val session = context.sparkSession match {
      case classic: SparkSession => classic
      case other => throw new IllegalArgumentException(s"no session of this driver: $other")
    }

    val records: ChannelRecords = new OnStore(SinkRows.directory(session, options.path))

    /** The epochs that a batch reads. */
    val chosen: Seq[SentEpoch] = options.epochs.map { epoch =>
      val found = ChannelLog.read(records, epoch)
      found.getOrElse(throw Errors.channelExpired(records.location, epoch - 1, epoch))
    }

    val rows: ChannelRows = new ChannelRows(
      session,
      records.location,
      withoutTag(asked.getOrElse(sent)).asNullable,
      options.tag
    )

    /** Whether so much waits of the channel that goes first that nothing is to be taken of this. */
    def mustYield(query: String): () => Boolean = {
      val first = options.yieldsTo.map { case (path, above) =>
        new OnStore(SinkRows.directory(session, path)).location -> above
      }
      () => first.exists { case (at, above) => ChannelSource.waitingBytes(query, at) > above }
    }

    /** Those that the offset log of a query has, which is about to run. */
    def acts(query: String): Seq[OwnChannel.Act] = for {
      of <- Option(session.sharedState.activeStreamingQueries.get(UUID.fromString(query))).toSeq
      latest <- of.offsetLog.getLatestBatchId().toSeq
      (act, source) <- EpochSeal.operations(of, math.max(0L, latest - KeptEntries) to latest)
    } yield OwnChannel.Act(act, source)

    def pollMs: Long =
      if (records.location.startsWith(s"${BucketPath.Scheme}:")) PollOfBucketMs else PollOfFilesMs

    private def sent: StructType = chosen.lastOption.orElse(ChannelLog.newest(records)) match {
      case Some(of) => DataType.fromJson(of.schema).asInstanceOf[StructType]
      case None     => throw Errors.channelEmpty(records.location)
    }

    /** Spark hands over the schema that it was told, which has the tag already. */
    private def withoutTag(schema: StructType) =
      StructType(schema.filterNot(field => options.tag.contains(field.name)))
  }

  final private class OnStore(directory: SinkDirectory) extends ChannelRecords {
    override val location: String = directory.location.stripSuffix("/")

    override def read(name: String): Option[Array[Byte]] = directory.read(name)

    override def names(of: String): Seq[String] =
      directory.names(of).linesIterator.filter(_.nonEmpty).toSeq

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
