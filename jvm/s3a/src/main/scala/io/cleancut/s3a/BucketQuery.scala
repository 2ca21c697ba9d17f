package io.cleancut.s3a

import java.util.concurrent.TimeoutException

import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.{
  StreamingQuery,
  StreamingQueryException,
  StreamingQueryProgress
}

/** How a query is run whose checkpoint is in a bucket. */
object BucketQuery {
  private val Common = Map(
    "spark.ui.enabled" -> "false",
    "spark.sql.adaptive.enabled" -> "false",
    "spark.sql.session.timeZone" -> "UTC"
  )

  /** In a session of its own, whose stores are gone when it ends. */
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

  /** That of the epochs with rows which comes after so many others. */
  def awaited(
      query: StreamingQuery,
      name: String,
      index: Int,
      patienceNs: Long
  ): StreamingQueryProgress = {
    val until = System.nanoTime() + patienceNs
    def found = query.recentProgress.filter(_.numInputRows > 0).sortBy(_.batchId)
    while (found.length <= index) {
      query.exception.foreach(throw _: StreamingQueryException)
      if (System.nanoTime() > until) throw new TimeoutException(s"$name stands still")
      Thread.sleep(20)
    }
    found(index)
  }
}
