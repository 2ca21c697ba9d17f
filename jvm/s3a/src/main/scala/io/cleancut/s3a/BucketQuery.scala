package io.cleancut.s3a

import java.util.concurrent.TimeoutException

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.{
  StreamingQuery,
  StreamingQueryException,
  StreamingQueryProgress
}

/** Runs a query whose checkpoint is in a bucket. */
object BucketQuery {
  private val Common = Map(
    "spark.ui.enabled" -> "false",
    "spark.sql.adaptive.enabled" -> "false",
    "spark.sql.session.timeZone" -> "UTC"
  )

  /** Runs in a separate session, whose stores are unloaded at the end. */
  def inSession[A](confs: Map[String, String], slots: Int, partitions: Int)(
      body: SparkSession => A
  ): A = {
    val spark = (Common ++ confs)
      .foldLeft(SparkSession.builder()) { case (builder, (key, value)) =>
        builder.config(key, value)
      }
      .master(s"local[$slots]")
      .config("spark.sql.shuffle.partitions", partitions.toLong)
      .getOrCreate()
    try body(spark)
    finally {
      StateStore.stop()
      spark.stop()
    }
  }

  /** The epoch with rows that follows `index` earlier ones. */
  def awaited(
      query: StreamingQuery,
      name: String,
      index: Int,
      patienceNs: Long
  ): StreamingQueryProgress = {
    val until = System.nanoTime() + patienceNs
    def progresses = query.recentProgress.filter(_.numInputRows > 0).sortBy(_.batchId)
    while (progresses.length <= index) {
      query.exception.foreach(throw _: StreamingQueryException)
      if (System.nanoTime() > until) throw new TimeoutException(s"$name makes no progress")
      Thread.sleep(20)
    }
    progresses(index)
  }
}
