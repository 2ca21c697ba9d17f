package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{Assertion, BeforeAndAfterAll}

import org.apache.spark.SparkIllegalArgumentException
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.sources.LowLatencyMemoryStream
import org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
import org.apache.spark.sql.execution.streaming.state.cleancut.coordination.DriverCuts
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming._
import org.apache.spark.sql.{DataFrame, Dataset, Encoders, ForeachWriter, Row}

import io.cleancut.conf.Keys
import io.cleancut.error.CleancutException
import io.cleancut.testkit.{LongTest, Patience}
import io.cleancut.{
  CleancutCheckpointFileManager,
  CleancutExtensions,
  CleancutSeal,
  CleancutStateStoreProvider
}

/** Queries of a session without a configured provider that enables Cleancut by `realTimeMode`. */
class RealTimeModeSuite extends AnyFunSuite with BeforeAndAfterAll with Patience {
  import RealTimeModeSuite._

  // Both stages of a query run concurrently, with a slot for each task.
  private lazy val spark: SparkSession = SparkSession
    .builder()
    .master("local[4]")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.shuffle.partitions", "2")
    .config("spark.sql.streaming.realTimeMode.minBatchDuration", "1s")
    .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
    .getOrCreate()

  override protected def afterAll(): Unit = spark.stop()

  private def session(confs: (String, String)*): SparkSession = {
    val made = spark.newSession()
    confs.foreach { case (key, value) => made.conf.set(key, value) }
    made
  }

  private def stream(session: SparkSession): LowLatencyMemoryStream[Long] =
    LowLatencyMemoryStream.singlePartition[Long](session)(Encoders.scalaLong)

  // A new stream starts at the offset of a checkpoint only if it has the same number of rows again.
  private def start(
      input: LowLatencyMemoryStream[Long],
      root: Path,
      rows: Seq[Long],
      deduplicate: Dataset[Long] => DataFrame
  ): StreamingQuery = {
    input.addData(rows)
    deduplicate(input.toDS()).writeStream
      .outputMode("update")
      .option("checkpointLocation", root.toString)
      .foreach(Seen)
      .trigger(Trigger.RealTime("1 second"))
      .start()
  }

  private def onlyNew(rows: Dataset[Long]): DataFrame =
    rows
      .groupByKey(identity[Long])(Encoders.scalaLong)
      .transformWithState(new OnlyNew, TimeMode.None(), OutputMode.Update())(Encoders.scalaLong)
      .toDF("value")

  private def slowly(rows: Dataset[Long]): Dataset[Long] =
    rows.map { (value: Long) => Thread.sleep(20); value }(Encoders.scalaLong)

  private def assertSeen(query: StreamingQuery, expected: Range): Assertion = {
    eventually {
      query.exception.foreach(throw _)
      assert(Seen.rows.asScala.toSeq.sorted == expected.map(_.toLong))
    }
    val epochs = Option(query.lastProgress).map(_.batchId).getOrElse(-1L)
    // Rows that the sink has received are committed with their epoch.
    eventually(assert(Option(query.lastProgress).exists(_.batchId >= epochs + 2)))
  }

  /** Runs a query twice, in sessions with these settings; the second run continues the first. */
  private def runTwice(first: (String, String)*)(second: (String, String)*): Path =
    runBoth(session(first: _*), session(second: _*), _.dropDuplicates("value").toDF())

  private def runBoth(
      before: SparkSession,
      after: SparkSession,
      deduplicate: Dataset[Long] => DataFrame
  ): Path = {
    Seen.rows.clear()
    val root = Files.createTempDirectory("cleancut-real-time")
    val query = start(stream(before), root, (0L until 10L) ++ (0L until 5L), deduplicate)
    assertSeen(query, 0 until 10)
    query.stop()
    val restarted = start(stream(after), root, (0L until 15L) ++ (5L until 20L), deduplicate)
    assertSeen(restarted, 0 until 20)
    restarted.stop()
    root
  }

  test("a query in real-time mode deduplicates on Cleancut through a restart", LongTest) {
    val root = runTwice(Asking)(Asking)
    assert(recorded(root).toSet == Set(Cleancut))
    assert(files(root).exists(_.endsWith(".delta")))
  }

  test(
    "transformWithState in real-time mode keeps its state on Cleancut through a restart",
    LongTest
  ) {
    // Spark's allowlist of operators for this mode contains only its own class.
    val confs = Seq(Asking, AnyOperator)
    val root = runBoth(session(confs: _*), session(confs: _*), onlyNew)
    assert(recorded(root).toSet == Set(Cleancut))
    assert(files(root).exists(_.endsWith(".delta")))
  }

  test("a query in real-time mode is committed by cuts, and reports why operators are aligned") {
    val root = runTwice(Capturing: _*)(Capturing: _*)
    val cuts = DriverCuts.status(s"file:$root", session(Capturing: _*))
    assert(cuts.reasons.aligned == Map(0L -> "it runs in real-time mode"))
    assert(files(root).exists(_.endsWith(".cut")) && !files(root).exists(_.endsWith(".delta")))
  }

  test("a query that continues in real-time mode processes its in-flight rows") {
    val (few, more, all) = (0L until 10L, 10L until 60L, 0L until 70L)
    val confs = Capturing ++ Seq(
      // Without format 2 Spark refuses to continue in this mode.
      SQLConf.STATE_STORE_CHECKPOINT_FORMAT_VERSION.key -> "2",
      // Spark's allowlist of operators does not contain the capture operator.
      AnyOperator
    )
    Seen.rows.clear()
    val root = Files.createTempDirectory("cleancut-real-time")
    val seen = new ConcurrentLinkedQueue[Long]
    val input = stream(session(confs: _*))
    val query = slowly(input.toDS().dropDuplicates("value")).writeStream
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: Dataset[Long], epoch: Long) =>
        CleancutSeal.seal(batch, epoch).collect().foreach(seen.add)
      }
      .start()
    // The first epoch of a run is aligned.
    input.addData(few)
    eventually(assert(seen.size == few.size))
    input.addData(more)
    eventually {
      query.exception.foreach(throw _)
      val cuts = DriverCuts.of(s"file:$root").get
      cuts.cutNow()
      assert(cuts.status.channels.exists(_.deferred.rows > 0))
    }
    query.stop()
    val before = seen.asScala.toSeq
    assert(before.size < few.size + more.size)
    val again = stream(session(confs: _*))
    val restarted = start(again, root, all, _.dropDuplicates("value").toDF())
    eventually {
      restarted.exception.foreach(throw _)
      assert((before ++ Seen.rows.asScala).sorted == all)
    }
    restarted.stop()
  }

  test(
    "a query that started on Cleancut continues there in a session without realTimeMode",
    LongTest
  ) {
    assert(recorded(runTwice(Asking)()).toSet == Set(Cleancut))
  }

  test(
    "a query that started on RocksDB continues there in a session with realTimeMode",
    LongTest
  ) {
    assert(recorded(runTwice()(Asking)).toSet == Set(RocksDb))
  }

  test("Spark refuses real-time mode in a session that configures the provider") {
    val naming = session(ProviderKey -> Cleancut)
    val root = Files.createTempDirectory("cleancut-real-time")
    val error = intercept[SparkIllegalArgumentException] {
      start(stream(naming), root, Nil, _.toDF())
    }
    assert(error.getCondition == "STREAMING_REAL_TIME_MODE.SQL_CONFIGURATION_NOT_SUPPORTED")
  }

  test(
    "other queries of a session with realTimeMode run on Cleancut unless it configures a provider"
  ) {
    for ((confs, expected) <- Seq(Seq(Asking) -> Cleancut, Seq(Asking, Naming) -> RocksDb)) {
      val root = Files.createTempDirectory("cleancut-asked")
      val input = session(confs: _*).readStream.format("rate").load().dropDuplicates("value")
      val writer = input.writeStream.format("noop").option("checkpointLocation", root.toString)
      val query = writer.trigger(Trigger.AvailableNow()).start()
      query.awaitTermination()
      assert(recorded(root).toSet == Set(expected))
    }
  }

  test("an invalid value of the key fails the query before it starts") {
    val wrong = session(Keys.RealTimeMode.name -> "maybe")
    val error = intercept[CleancutException](wrong.readStream.format("rate").load())
    assert(error.errorId == "CLEANCUT_CONF_INVALID")
  }
}

object RealTimeModeSuite {
  private val Asking = Keys.RealTimeMode.name -> "true"
  private val AnyOperator = "spark.sql.streaming.realTimeMode.allowlistCheck" -> "false"
  private val ManagerClass = classOf[CleancutCheckpointFileManager].getName
  private val Capturing = Seq(
    Asking,
    SQLConf.STREAMING_CHECKPOINT_FILE_MANAGER_CLASS.parent.key -> ManagerClass,
    Keys.Cuts.name -> "true",
    Keys.Mode.name -> "unaligned"
  )
  private val RocksDb = classOf[RocksDBStateStoreProvider].getName
  private val Naming = SQLConf.STATE_STORE_PROVIDER_CLASS.key -> RocksDb
  private val ProviderKey = SQLConf.STATE_STORE_PROVIDER_CLASS.key
  private val Cleancut = classOf[CleancutStateStoreProvider].getName

  /** The provider of each entry of the offset log. */
  private def recorded(root: Path): Seq[String] = {
    val log = Files.list(root.resolve("offsets")).iterator.asScala.toSeq
    val entries = log.filterNot(_.getFileName.toString.startsWith("."))
    val named = s""""$ProviderKey":"([^"]+)"""".r
    entries.flatMap(e => named.findFirstMatchIn(Files.readString(e)).map(_.group(1)))
  }

  private def files(root: Path): Seq[String] =
    Files.walk(root.resolve("cleancut")).iterator.asScala.map(_.getFileName.toString).toSeq
}

/** Emits the first row of each key. */
class OnlyNew extends StatefulProcessor[Long, Long, Long] {
  @transient private var seen: ValueState[Boolean] = _

  override def init(outputMode: OutputMode, timeMode: TimeMode): Unit =
    seen = getHandle.getValueState("seen", Encoders.scalaBoolean, TTLConfig.NONE)

  override def handleInputRows(
      key: Long,
      rows: Iterator[Long],
      timers: TimerValues
  ): Iterator[Long] = {
    val isNew = !seen.exists()
    seen.update(true)
    // In this mode each call may have a single row.
    val first = rows.toSeq.headOption
    if (isNew) first.iterator else Iterator.empty
  }
}

/** Collects the rows of the query in this JVM, in which its tasks run. */
object Seen extends ForeachWriter[Row] {
  val rows = new ConcurrentLinkedQueue[Long]
  override def open(partitionId: Long, epochId: Long): Boolean = true
  override def process(row: Row): Unit = { rows.add(row.getLong(0)); () }
  override def close(errorOrNull: Throwable): Unit = ()
}
