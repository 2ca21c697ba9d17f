package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import org.apache.hadoop.fs.{FileStatus, Path}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.Expression
import org.apache.spark.sql.execution.datasources.{FileIndex, PartitionDirectory}
import org.apache.spark.sql.types.{IntegerType, LongType, StringType, StructType}
import org.apache.spark.unsafe.types.UTF8String

import io.cleancut.dataflow.SentEpoch

/**
 * The files of some epochs, for Spark's Parquet reader. Names and sizes come from the manifests, so
 * nothing is listed. The origin of a row is in partition values.
 *
 * @param find
 *   returns the epochs; called when Spark first needs them, which may be never if the batch has run
 *   already
 */
final class ChannelFiles(location: String, find: () => Seq[SentEpoch]) extends FileIndex {
  private lazy val epochs = find()

  private lazy val directories = for {
    sent <- epochs
    (file, index) <- sent.files.zipWithIndex
  } yield {
    val path = new Path(s"$location/${file.name}")
    val status = new FileStatus(file.bytes, false, 1, file.bytes, sent.publishedMs, path)
    val values = InternalRow(UTF8String.fromString(sent.sender), sent.epoch, index)
    PartitionDirectory(values, Array(status))
  }

  override def rootPaths: Seq[Path] = Seq(new Path(location))

  override def partitionSchema: StructType = ChannelFiles.PartitionSchema

  /** Nothing filters by these partitions, because their columns are hidden. */
  override def listFiles(
      partitionFilters: Seq[Expression],
      dataFilters: Seq[Expression]
  ): Seq[PartitionDirectory] = directories

  override def inputFiles: Array[String] =
    epochs.flatMap(_.files).map(file => s"$location/${file.name}").toArray

  override def refresh(): Unit = ()

  override def sizeInBytes: Long = epochs.iterator.map(_.bytes).sum
}

object ChannelFiles {
  val SenderColumn = "cleancut_sender"
  val EpochColumn = "cleancut_epoch"
  val FileColumn = "cleancut_file"

  private val PartitionSchema =
    new StructType()
      .add(SenderColumn, StringType)
      .add(EpochColumn, LongType)
      .add(FileColumn, IntegerType)
}
