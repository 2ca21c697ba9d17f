package org.apache.spark.sql.execution.streaming.state.cleancut.flow

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.functions.{col, from_json, struct}
import org.apache.spark.sql.types._

import io.cleancut.error.Errors
import io.cleancut.flow.SentEpoch

/**
 * The rows of a channel's epochs, as Spark reads them.
 *
 * @param schema
 *   of the rows; what a file or a record lacks of it is null
 * @param tag
 *   the column that says where a row is from, if it is wanted
 * @param kafka
 *   options for a topic
 */
final class ChannelRows(
    session: SparkSession,
    location: String,
    schema: StructType,
    tag: Option[String],
    kafka: Map[String, String]
) {

  /** What the rows have, with the tag. */
  val wholeSchema: StructType =
    tag.fold(schema)(name => schema.add(name, ChannelRows.TagType, nullable = false))

  /** A part of a stream in which nothing is. */
  def none: DataFrame = ofFiles(() => Nil, isStreaming = true)

  /**
   * The rows of some epochs.
   *
   * @param find
   *   looks for the epochs, when the rows are planned
   * @param inTopic
   *   whether their rows lie in a topic
   * @param isStreaming
   *   whether it is a part of a stream
   */
  def of(find: () => Seq[SentEpoch], inTopic: Boolean, isStreaming: Boolean): DataFrame =
    if (inTopic) ofTopic(() => alike(find(), inTopic), isStreaming)
    else ofFiles(() => alike(find(), inTopic), isStreaming)

  /** What lies elsewhere would not be found, and not be missed. */
  private def alike(epochs: Seq[SentEpoch], inTopic: Boolean): Seq[SentEpoch] = {
    epochs.find(of => of.topic.nonEmpty != inTopic).foreach { of =>
      val detail = s"the rows of epoch ${of.epoch} lie elsewhere than those of others"
      throw Errors.flowDamaged(location, detail)
    }
    epochs
  }

  /** Spark plans them like any other rows: it reads the columns it needs. */
  private def ofFiles(find: () => Seq[SentEpoch], isStreaming: Boolean): DataFrame = {
    val files = new ChannelFiles(location, find)
    val relation = HadoopFsRelation(
      files,
      files.partitionSchema,
      schema,
      None,
      new ParquetFileFormat,
      Map.empty
    )(session)
    val rows = Dataset.ofRows(session, LogicalRelation(relation, isStreaming))
    val columns = schema.fieldNames.toSeq.map(name => col(s"`${name.replace("`", "``")}`"))
    rows.select(columns ++ tag.map(name => tagged.as(name)): _*)
  }

  private def ofTopic(find: () => Seq[SentEpoch], isStreaming: Boolean): DataFrame = {
    val relation = new ChannelTopic(session, location, find, kafka)
    val records = Dataset.ofRows(session, LogicalRelation(relation, isStreaming))
    val text = col(ChannelTopic.Value).cast(StringType)
    val row = from_json(text, schema, ChannelTopic.JsonOptions).as("row")
    val rows = records.select(row +: tag.map(_ => col(ChannelTopic.Tag).as("tag")).toSeq: _*)
    val columns = schema.fieldNames.toSeq.map(name => col("row").getField(name).as(name))
    rows.select(columns ++ tag.map(name => col("tag").as(name)): _*)
  }

  private def tagged = struct(
    col(ChannelFiles.SenderColumn).as("sender"),
    col(ChannelFiles.EpochColumn).as("epoch"),
    col(ChannelFiles.FileColumn).as("partition"),
    col("_metadata.row_index").as("sequence")
  )
}

object ChannelRows {

  /** Who sent a row, in which of its epochs, and the row's place there. */
  private[flow] val TagType = new StructType()
    .add("sender", StringType)
    .add("epoch", LongType)
    .add("partition", IntegerType)
    .add("sequence", LongType)
}
