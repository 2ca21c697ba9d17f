package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic.{Dataset, SparkSession}
import org.apache.spark.sql.execution.datasources.{HadoopFsRelation, LogicalRelation}
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat
import org.apache.spark.sql.functions.{col, struct}
import org.apache.spark.sql.types._

import io.cleancut.dataflow.SentEpoch

/**
 * The rows of a channel's epochs, as a DataFrame.
 *
 * @param schema
 *   schema of the rows; columns that a file lacks are null
 * @param tag
 *   name of the column for the origin of a row, if it is requested
 */
final class ChannelRows(
    session: SparkSession,
    location: String,
    schema: StructType,
    tag: Option[String]
) {

  /** The schema of the rows, including the tag. */
  val wholeSchema: StructType =
    tag.fold(schema)(name => schema.add(name, ChannelRows.TagType, nullable = false))

  /** An empty part of a stream. */
  def none: DataFrame = of(() => Nil, isStreaming = true)

  /**
   * The rows of some epochs. Spark plans them like other files, and reads only the columns that a
   * query uses.
   *
   * @param find
   *   returns the epochs when the rows are planned
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

  /** The sender of a row, the sender's epoch, and the position of the row in it. */
  private[channel] val TagType = new StructType()
    .add("sender", StringType)
    .add("epoch", LongType)
    .add("partition", IntegerType)
    .add("sequence", LongType)
}
