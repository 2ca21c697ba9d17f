package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.functions.{col, struct}
import org.apache.spark.sql.types._

import io.cleancut.dataflow.SentEpoch

/**
 * The rows of a channel's epochs, as Spark reads them.
 *
 * @param schema
 *   of the rows; what a file lacks of it is null
 * @param tag
 *   the column that says where a row is from, if it is wanted
 */
final class ChannelRows(
    session: SparkSession,
    location: String,
    schema: StructType,
    tag: Option[String]
) {

  /** What the rows have, with the tag. */
  val wholeSchema: StructType =
    tag.fold(schema)(name => schema.add(name, ChannelRows.TagType, nullable = false))

  /** A part of a stream in which nothing is. */
  def none: DataFrame = of(() => Nil, isStreaming = true)

  /**
   * The rows of some epochs. Spark plans them as it plans other files: it reads the columns that a
   * query uses.
   *
   * @param find
   *   returns the epochs, when the rows are planned
   * @param isStreaming
   *   whether it is a part of a stream
   */
  def of(find: () => Seq[SentEpoch], isStreaming: Boolean): DataFrame = {
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

  private def tagged = struct(
    col(ChannelFiles.SenderColumn).as("sender"),
    col(ChannelFiles.EpochColumn).as("epoch"),
    col(ChannelFiles.FileColumn).as("partition"),
    col("_metadata.row_index").as("sequence")
  )
}

object ChannelRows {

  /** Who sent a row, in which of its epochs, and the row's place there. */
  private[channel] val TagType = new StructType()
    .add("sender", StringType)
    .add("epoch", LongType)
    .add("partition", IntegerType)
    .add("sequence", LongType)
}
