package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{Dataset, Row, SparkSession}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import io.cleancut.testkit.QueryWaits

/**
 * The expected output of a randomized query: all its input in one epoch on Spark's RocksDB
 * provider.
 */
object ReferenceOutput {

  /** Settings of its session. */
  def settings(query: UnalignedQuery): Map[String, String] = query.settings ++ OnRocksDb

  def of(session: SparkSession, query: UnalignedQuery, root: Path): QueryOutput = {
    val source = MemoryStream(Reading.encoder, session)
    val output = query(source.toDS())
    val epochs = new ConcurrentLinkedQueue[Seq[Row]]
    source.addData(query.steps.flatten)
    val running = output.writeStream
      .outputMode(query.operator.mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: Dataset[Row], _: Long) =>
        epochs.add(batch.collect().toSeq)
        ()
      }
      .start()
    try
      // `processAllAvailable` does not return: processing time makes Spark run empty epochs.
      if (query.hasProcessingTime) QueryWaits.until(running, "an epoch is emitted")(!epochs.isEmpty)
      else QueryWaits.drain(running)
    finally running.stop()
    QueryOutput(
      output.columns.toSeq,
      epochs.asScala.toSeq,
      if (query.hasComparableState) StoredState.readUndivided(session, root) else Map.empty
    )
  }

  private val OnRocksDb = Map(
    "spark.sql.streaming.stateStore.providerClass" -> RocksDbComparison.RocksDb,
    "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled" -> "true"
  )
}
