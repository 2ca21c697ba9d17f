package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Row, SQLContext}
import org.apache.spark.sql.sources.{BaseRelation, TableScan}
import org.apache.spark.sql.types.StructType

import io.cleancut.dataflow.SentEpoch

/** Selected epochs of a channel, for a batch. */
final class ChannelRelation(
    override val sqlContext: SQLContext,
    rows: ChannelRows,
    epochs: Seq[SentEpoch]
) extends BaseRelation
    with TableScan {

  override def schema: StructType = rows.wholeSchema

  override def buildScan(): RDD[Row] = rows.of(() => epochs, isStreaming = false).rdd
}
