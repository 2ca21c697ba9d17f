package io.cleancut.e2e

import java.nio.file.Path

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

/** A query that counts equal lines of the files in `in`, with its checkpoint in `q`. */
object LineCounts {
  def start(spark: SparkSession, home: Path, trigger: Trigger)(
      write: (DataFrame, Long) => Unit
  ): StreamingQuery = spark.readStream
    .text(home.resolve("in").toString)
    .groupBy("value")
    .count()
    .writeStream
    .foreachBatch(write)
    .outputMode("update")
    .option("checkpointLocation", home.resolve("q").toString)
    .trigger(trigger)
    .start()
}
