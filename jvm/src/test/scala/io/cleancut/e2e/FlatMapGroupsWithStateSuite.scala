package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.nio.file.attribute.FileTime
import java.sql.Timestamp

import scala.collection.mutable
import scala.util.Random

import org.scalatest.{Assertion, BeforeAndAfterAll}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Dataset, SparkSession}
import org.apache.spark.sql.streaming._

import io.cleancut.CleancutStateStoreProvider

/** An event of the input. */
final case class Event(key: Long, ts: Timestamp, value: Long)

/** What the function keeps for a key; a string of changing length makes values of many sizes. */
final case class Running(count: Long, total: Long, last: Option[String])

/** What the function emits; `timedOut` marks rows that a timeout made. */
final case class Emitted(key: Long, count: Long, total: Long, timedOut: Boolean)

/**
 * `flatMapGroupsWithState` and `mapGroupsWithState`, with and without event-time timeouts, through
 * restarts: rows and epochs must be those of the same query on Spark's RocksDB provider.
 */
class FlatMapGroupsWithStateSuite extends AnyFunSuite with BeforeAndAfterAll {
  import FlatMapGroupsWithStateSuite._

  private lazy val spark = SparkSession
    .builder()
    .master("local[2]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "3")
    .config("spark.sql.session.timeZone", "UTC")
    .getOrCreate()

  override protected def afterAll(): Unit = spark.stop()

  for {
    (name, timeout) <- Seq(
      "without timeouts" -> GroupStateTimeout.NoTimeout(),
      "with event-time timeouts" -> GroupStateTimeout.EventTimeTimeout()
    )
    mode <- Seq(OutputMode.Update(), OutputMode.Append())
  } test(s"flatMapGroupsWithState $name in $mode mode gives the rows of the built-in provider") {
    compare(mode)(flatMapped(_, timeout, mode))
  }

  test("mapGroupsWithState gives the rows of the built-in provider") {
    compare(OutputMode.Update())(mapped)
  }

  private def compare(mode: OutputMode)(query: Dataset[Event] => DataFrame): Assertion = {
    val home = Files.createTempDirectory("cleancut-e2e")
    val events = Files.createDirectory(home.resolve("events"))
    val providers = Seq(classOf[CleancutStateStoreProvider].getName, RocksDb)
    val found = providers.map(_ => mutable.TreeMap.empty[Long, Seq[String]])
    for (files <- Runs) {
      files.foreach(writeEvents(events, _))
      providers.zip(found).foreach { case (provider, rows) =>
        run(query(read(events)), mode, home.resolve(provider), provider, rows)
      }
    }
    info(s"seed $Seed, ${found.head.size} epochs, ${found.head.values.map(_.size).sum} rows")
    assert(found.head.values.exists(_.nonEmpty))
    assert(found.head == found.last)
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

  private def flatMapped(
      events: Dataset[Event],
      timeout: GroupStateTimeout,
      mode: OutputMode
  ): DataFrame = {
    import spark.implicits._
    events.groupByKey(_.key).flatMapGroupsWithState(mode, timeout)(counted(timeout)).toDF()
  }

  private def mapped(events: Dataset[Event]): DataFrame = {
    import spark.implicits._
    val timeout = GroupStateTimeout.NoTimeout()
    events
      .groupByKey(_.key)
      .mapGroupsWithState[Running, Emitted](timeout) {
        (key: Long, rows: Iterator[Event], state: GroupState[Running]) =>
          counted(timeout)(key, rows, state).next()
      }
      .toDF()
  }
}

object FlatMapGroupsWithStateSuite {
  private val RocksDb =
    "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
  private val Seed = 77
  private val EpochMs = 10000L
  private val TimeoutMs = 12000L

  // Files that each run of a query finds anew: every run but the first is a restart.
  private val Runs = Seq(0 until 3, 3 until 5, 5 until 7)

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

  private def counted(timeout: GroupStateTimeout)(
      key: Long,
      rows: Iterator[Event],
      state: GroupState[Running]
  ): Iterator[Emitted] =
    if (state.hasTimedOut) {
      val last = state.get
      state.remove()
      Iterator(Emitted(key, last.count, last.total, timedOut = true))
    } else {
      val before = state.getOption.getOrElse(Running(0, 0, None))
      val values = rows.map(_.value).toSeq
      val after = Running(
        before.count + values.size,
        before.total + values.sum,
        if (values.sum % 5 == 0) None else Some("x" * (values.sum % 40).toInt)
      )
      if (after.count % 7 == 0) state.remove() else state.update(after)
      if (timeout == GroupStateTimeout.EventTimeTimeout() && state.exists) {
        state.setTimeoutTimestamp(Math.max(state.getCurrentWatermarkMs(), 0L) + TimeoutMs)
      }
      Iterator(Emitted(key, after.count, after.total, timedOut = false))
    }
}
