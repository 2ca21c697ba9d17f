package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime
import java.sql.Timestamp

import scala.collection.mutable
import scala.util.Random

import org.scalatest.{Assertion, BeforeAndAfterAll}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager
import org.apache.spark.sql.streaming.{OutputMode, Trigger}

import io.cleancut.{CleancutExtensions, CleancutStateStoreProvider}
import io.cleancut.testkit.{Draws, SmallQueries}

/** An event of the input. */
final case class Event(key: Long, ts: Timestamp, value: Long)

/** Runs a query on Cleancut's provider and on Spark's RocksDB provider, through restarts. */
trait RocksDbComparison extends BeforeAndAfterAll { this: AnyFunSuite =>
  import RocksDbComparison._

  protected def master: String = "local[2]"

  protected lazy val spark: SparkSession = SmallQueries.session(master)(
    _
      // Without native Hadoop code, Spark's default starts processes for each file.
      .config("spark.sql.streaming.checkpointFileManagerClass", FileManager)
      .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
      // In seconds. Spark 4.2 stops its stores under a lock for which their maintenance may wait.
      .config("spark.sql.streaming.stateStore.maintenanceShutdownTimeout", "2")
      .config("spark.sql.streaming.stateStore.maintenanceForceShutdownTimeout", "1")
  )

  override protected def afterAll(): Unit = spark.stop()

  /** Checks that both providers return the same rows and epochs. */
  protected def compare(mode: OutputMode)(query: Dataset[Event] => DataFrame): Assertion = {
    val home = Files.createTempDirectory("cleancut-e2e")
    val events = Files.createDirectory(home.resolve("events"))
    val providers = Seq(classOf[CleancutStateStoreProvider].getName, RocksDb)
    val results = providers.map(_ => mutable.TreeMap.empty[Long, Seq[String]])
    for (files <- Runs) {
      files.foreach(writeEvents(events, _))
      providers.zip(results).foreach { case (provider, rows) =>
        run(query(read(events)), mode, home.resolve(provider), provider, rows)
      }
    }
    info(s"seed $Seed, ${results.head.size} epochs, ${results.head.values.map(_.size).sum} rows")
    assert(results.head.values.exists(_.nonEmpty))
    assert(results.head == results.last)
  }

  private def read(events: Path): Dataset[Event] = {
    import spark.implicits._
    spark.readStream
      .schema("key long, ts timestamp, value long")
      .option("maxFilesPerTrigger", 1)
      .json(events.toString)
      .withWatermark("ts", "5 seconds")
      .as[Event]
  }

  private def run(
      query: DataFrame,
      mode: OutputMode,
      root: Path,
      provider: String,
      rows: mutable.Map[Long, Seq[String]]
  ): Unit = {
    spark.conf.set("spark.sql.streaming.stateStore.providerClass", provider)
    query.writeStream
      .outputMode(mode)
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: DataFrame, epoch: Long) =>
        rows(epoch) = batch.collect().map(_.toString).sorted.toSeq
      }
      .trigger(Trigger.AvailableNow())
      .start()
      .awaitTermination()
  }
}

object RocksDbComparison {
  private[e2e] val RocksDb =
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val FileManager = classOf[FileSystemBasedCheckpointFileManager].getName
  private val Seed = 77
  private val EpochMs = 10000L

  // The new files of each run of a query. Every run but the first is a restart.
  private val Runs = {
    val runs = Seq(0 until 3, 3 until 5, 5 until 7)
    if (Draws.areAll) runs else runs.take(2)
  }

  private def writeEvents(directory: Path, file: Int): Unit = {
    val random = new Random(Seed * 1000 + file)
    val lines = Seq.fill(120) {
      val at = new Timestamp(file * EpochMs + random.nextInt(EpochMs.toInt)).toInstant
      s"""{"key":${random.nextInt(30 + file * 5)},"ts":"$at","value":${random.nextInt(100)}}"""
    }
    val path = directory.resolve(f"$file%05d.json")
    Files.writeString(path, lines.mkString("\n"))
    Files.setLastModifiedTime(path, FileTime.fromMillis(1000000000000L + file * 1000L))
    ()
  }
}
