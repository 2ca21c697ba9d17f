package io.cleancut.bench.queries

import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Dataset, Encoders, SparkSession}
import org.apache.spark.sql.streaming.Trigger

/**
 * The complete answer of a query for a bounded number of events: as a stream with one epoch per
 * file, which is stopped and restarted in the middle, and as a batch.
 */
final class NexmarkAnswer(session: SparkSession, query: NexmarkQuery, count: Int, home: Path) {
  import NexmarkAnswer._

  private val files = Files.createDirectories(home.resolve("events"))

  /** All rows as sorted lines. */
  def ofBatch(): Seq[String] = {
    val numbers = session.range(count.toLong).as(Encoders.scalaLong)
    query.of(numbers).collect().map(_.toString).sorted.toSeq
  }

  /** The streaming answer on the session's provider. */
  def ofStream(name: String): Seq[String] = {
    val rows = new ConcurrentLinkedQueue[String]
    val checkpoint = home.resolve(name)
    Files.list(files).iterator.asScala.toSeq.foreach(Files.delete)
    val size = count / Epochs
    for (run <- 0 until Runs) {
      for (file <- Epochs * run / Runs until Epochs * (run + 1) / Runs) {
        val end = if (file == Epochs - 1) count else (file + 1) * size
        write(file, (file * size until end).map(_.toLong))
      }
      // Events after the last one, which close all windows.
      if (run == Runs - 1) write(Epochs, NexmarkEvents.Last)
      runOnce(checkpoint, rows)
    }
    rows.asScala.toSeq.sorted
  }

  private def runOnce(checkpoint: Path, rows: ConcurrentLinkedQueue[String]): Unit = query
    .of(numbers)
    .writeStream
    .outputMode(query.mode)
    .option("checkpointLocation", checkpoint.toString)
    .foreachBatch { (batch: DataFrame, _: Long) =>
      batch.collect().foreach(row => rows.add(row.toString))
    }
    .trigger(Trigger.AvailableNow())
    .start()
    .awaitTermination()

  private def numbers: Dataset[Long] = session.readStream
    .schema("value long")
    .option("maxFilesPerTrigger", 1)
    .json(files.toString)
    .as(Encoders.scalaLong)

  private def write(file: Int, numbers: Seq[Long]): Unit = {
    val path = files.resolve(f"$file%05d.json")
    Files.writeString(path, numbers.map(n => s"""{"value":$n}""").mkString("\n"))
    Files.setLastModifiedTime(path, FileTime.fromMillis(FirstMs + file * 1000L))
    ()
  }
}

object NexmarkAnswer {
  private val Epochs = 6
  private val Runs = 2
  private val FirstMs = 1000000000000L
}
