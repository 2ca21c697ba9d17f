package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.sql.Timestamp

import scala.collection.mutable
import scala.util.{Random, Try}

import org.apache.hadoop.fs.{LocalFileSystem, RawLocalFileSystem}
import org.apache.hadoop.fs.local.LocalFs
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions.{count, max, sum}
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.{CleancutCheckpointFileManager, CleancutExtensions, CleancutStateStoreProvider}
import io.cleancut.format.FrameKind
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.{ObjectPrefix, S3TestStore}
import io.cleancut.testkit.{LongTest, S3ProxyServer, S3Server, SmallQueries}

/**
 * A query whose checkpoint location is on an object store, in a cluster of separate processes
 * without a Hadoop file system for the scheme. Its executors run the packaged jar.
 */
class CheckpointOnS3Suite extends AnyFunSuite with BeforeAndAfterAll {
  import CheckpointOnS3Suite._

  private var server: S3Server = _
  private val home = Files.createTempDirectory("cleancut-s3")
  private val events = Files.createDirectory(home.resolve("events"))

  override protected def beforeAll(): Unit = server = S3ProxyServer.start()

  override protected def afterAll(): Unit = server.close()

  private def session(change: SparkSession.Builder => SparkSession.Builder): SparkSession =
    change(builder).getOrCreate()

  /** A session for tests that need no cluster. */
  private def localSession(): SparkSession = session(_.master("local[2]"))

  private def builder: SparkSession.Builder = SmallQueries
    .builder(Cluster)
    .config("spark.driver.host", "127.0.0.1")
    .config("spark.jars", System.getProperty("cleancut.test.jars"))
    .config("spark.executor.extraJavaOptions", S3Server.CredentialOptions)
    // Executors do not have the classes of the tests.
    .config("spark.hadoop.fs.file.impl", classOf[LocalFileSystem].getName)
    .config("spark.hadoop.fs.AbstractFileSystem.file.impl", classOf[LocalFs].getName)
    .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
    .config(FileManagerKey, classOf[CleancutCheckpointFileManager].getName)
    .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
    .config(s"$State.minDeltasForSnapshot", "2")
    .config(s"$State.maintenanceInterval", "500ms")
    .config("spark.sql.streaming.minBatchesToRetain", "100")
    .config(s"$State.cleancut.s3.endpoint", server.endpoint)
    .config(s"$State.cleancut.s3.region", "us-east-1")
    .config(s"$State.cleancut.s3.pathStyle", "true")

  /** One run, which starts from the bucket and ends when all files are processed. */
  private def run(
      location: String,
      rows: mutable.Map[String, String],
      change: SparkSession.Builder => SparkSession.Builder
  )(query: DataFrame => DataFrame): Long = {
    // Format 2 has checkpoint ids in Spark's commit log.
    val spark = session(builder => change(builder.config(s"$State.checkpointFormatVersion", "2")))
    try {
      val input = spark.readStream
        .schema(Schema)
        .option("maxFilesPerTrigger", 1)
        .json(events.toString)
        .withWatermark("ts", "5 seconds")
      val running = query(input).writeStream
        .outputMode("update")
        .option("checkpointLocation", location)
        .foreachBatch { (batch: DataFrame, _: Long) =>
          batch.collect().foreach(row => rows(row.get(0).toString) = row.toString)
        }
        .trigger(Trigger.AvailableNow())
        .start()
      running.awaitTermination()
      running.lastProgress.batchId
    } finally spark.stop()
  }

  test("a query continues in a new cluster from the bucket alone") {
    val rows = mutable.Map.empty[String, String]
    // The first run has no separate processes, because they take long to start.
    val last =
      for ((files, master) <- Seq((0 until 3) -> "local[2]", (3 until 6) -> Cluster)) yield {
        files.foreach(write(events, _))
        run(Location, rows, _.master(master))(totals)
      }
    assert(last == last.distinct.sorted, "a run started from epoch 0")
    val spark = localSession()
    try {
      val expected = totals(spark).map(row => row.get(0).toString -> row.toString).toMap
      assert(rows.toMap == expected)
      assert(expected.size > 20)
    } finally spark.stop()
    val objects = list("queries/totals/")
    info(s"${objects.size} objects, epochs to ${last.last}")
    assert(
      !objects.exists(name => name.startsWith("commits/")),
      "a commit entry in addition to its cut"
    )
    assert(!objects.exists(_.startsWith("cleancut/stores/")), "a frame in a separate object")
    val cuts = archive("queries/totals").cuts.epochs()
    assert(cuts == (0L to last.last))
    val cut = archive("queries/totals").cuts.read(cuts.last).get
    assert(cut.stores.map(_.store.partition).sorted == Seq(0, 1, 2))
    assert(cut.stores.exists(_.frames.head._1 == FrameKind.Base))
    assert(cut.run.generation == 2 && cut.commit.startsWith("v") && cut.offsets.startsWith("v"))
    assert(cut.segments.forall(name => objects.contains(s"cleancut/$name")))
    checkCosts(cuts.map(archive("queries/totals").cuts.read(_).get).filter(_.run.generation == 2))
  }

  /** Executors are separate processes here, so they load the state when a run begins. */
  private def checkCosts(cuts: Seq[Cut]): Unit = {
    val costs = cuts.map(_.costs.get)
    val reads = costs.map(_.executors.requests.get("getRange").fold(0L)(_.requests))
    assert(cuts.size >= 3 && reads.head > 0, s"$reads")
    assert(costs.forall(c => c.executorCount > 0 && c.driver.requests("create").requests > 0))
    assert(costs.forall(_.driver.frames > 0), "the driver writes small frames")
    val slowest = costs.flatMap(_.slowest)
    assert(slowest.size == 3 * cuts.size && slowest.forall(_.executor.forall(_.isDigit)))
    assert(slowest.forall(_.host.nonEmpty))
    cuts.foreach(c => assert(c.timings("epochMs") >= c.timings("gateMs"), s"${c.timings}"))
  }

  private def archive(query: String) = S3TestStore.archive(server.endpoint, query)

  test(
    "a sink skips a repeated epoch after the driver has died between sink and cut",
    LongTest
  ) {
    val location = s"s3://${S3Server.Bucket}/queries/skipped"
    val input = Files.createDirectory(home.resolve("skipped"))
    val totals = mutable.Map.empty[String, String]
    val seen = mutable.Set.empty[Long]
    val skipped = mutable.Buffer.empty[Long]
    val cuts = archive("queries/skipped")

    /** Runs the query; the driver dies after the sink of an epoch, before its cut. */
    def runUntil(fatal: Option[Long]): Option[Throwable] = {
      def sink(batch: DataFrame, epoch: Long): Unit =
        if (seen(epoch)) skipped += epoch
        else {
          batch.collect().foreach(row => totals(row.get(0).toString) = row.toString)
          seen += epoch
          if (fatal.contains(epoch)) throw new IllegalStateException("died after the sink")
        }
      val spark = localSession()
      // Spark's validation refuses a `foreachBatch` function that skips an epoch.
      spark.conf.set(s"$State.commitValidation.enabled", "false")
      try {
        val running = spark.readStream
          .schema(Schema)
          .option("maxFilesPerTrigger", 1)
          .json(input.toString)
          .groupBy("key")
          .agg(count("*"), sum("value"))
          .writeStream
          .outputMode("update")
          .option("checkpointLocation", location)
          .foreachBatch(sink(_: DataFrame, _: Long))
          .trigger(Trigger.AvailableNow())
          .start()
        Try(running.awaitTermination()).failed.toOption
      } finally {
        spark.stop()
        // The next run must start without loaded stores, as in a new process.
        StateStore.stop()
      }
    }

    (0 until 4).foreach(write(input, _))
    val death = runUntil(fatal = Some(2L))
    assert(death.exists(_.getMessage.contains("died after the sink")), death)
    assert(cuts.cuts.epochs() == Seq(0L, 1L) && seen == Set(0L, 1L, 2L))
    (4 until 6).foreach(write(input, _))
    assert(runUntil(fatal = None).isEmpty)
    assert(skipped == Seq(2L))
    assert(cuts.cuts.epochs() == (0L to 5L))
    val spark = localSession()
    try {
      val expected =
        spark.read.schema(Schema).json(input.toString).groupBy("key").agg(count("*"), sum("value"))
      assert(totals.values.toSeq.sorted == expected.collect().map(_.toString).toSeq.sorted)
    } finally spark.stop()
  }

  test("Spark's state reader finds the state from a session that never ran the query") {
    val spark = localSession()
    try {
      val stores = spark.read.format("state-metadata").load(Location).collect()
      assert(stores.map(_.getAs[String]("stateStoreName")).toSeq == Seq("default"))
      assert(stores.map(_.getAs[Int]("numPartitions")).toSeq == Seq(3))
      val state = spark.read.format("statestore").load(Location)
      val rows = state.select("key.key", "value.*", "partition_id").collect()
      assert(rows.map(_.getAs[Int]("partition_id")).toSet == Set(0, 1, 2))
      def comparable(row: Row, columns: Int) = row.toSeq.take(columns).map(_.toString)
      assert(rows.map(comparable(_, 4)).toSet == totals(spark).map(comparable(_, 4)).toSet)
      info(s"${rows.length} rows of state in ${rows.map(_.getInt(4)).toSet.size} partitions")
    } finally spark.stop()
  }

  test("a cluster's configured file system for the scheme is not replaced") {
    val configured = "spark.hadoop.fs.s3.impl" -> classOf[RawLocalFileSystem].getName
    val spark = session(_.master("local[2]").config(configured._1, configured._2))
    try {
      val conf = spark.sparkContext.hadoopConfiguration
      assert(conf.get("fs.s3.impl") == classOf[RawLocalFileSystem].getName)
    } finally spark.stop()
  }

  private def totals(rows: DataFrame): DataFrame =
    rows.groupBy("key").agg(count("*"), sum("value"), max("ts"))

  private def totals(spark: SparkSession): Array[Row] =
    totals(spark.read.schema(Schema).json(events.toString)).collect()

  test("old log entries and cuts beyond the retention are deleted") {
    write(events, 7)
    val last = run(
      Location,
      mutable.Map.empty,
      _.master("local[2]").config("spark.sql.streaming.minBatchesToRetain", "2")
    )(totals)
    val kept = list("queries/totals/").filter(_.startsWith("offsets/"))
    assert(kept.nonEmpty && kept.size < 5, kept)
    val cuts = archive("queries/totals").cuts.epochs()
    assert(cuts.last == last && cuts.size < 7, cuts)
  }

  private def list(prefix: String): Seq[String] = {
    val store = S3TestStore.open(server.endpoint, s"s3://${S3Server.Bucket}")
    try store.list(ObjectPrefix(prefix)).map(_.key.name.stripPrefix(prefix)).toSeq.sorted
    finally store.close()
  }
}

object CheckpointOnS3Suite {
  private val Cluster = "local-cluster[2,1,1024]"
  private val State = "spark.sql.streaming.stateStore"
  private val FileManagerKey = "spark.sql.streaming.checkpointFileManagerClass"
  private val Location = s"s3://${S3Server.Bucket}/queries/totals"
  private val Schema = "key long, ts timestamp, value long"

  private def write(directory: Path, file: Int): Unit = {
    val random = new Random(4100L + file)
    val lines = Seq.fill(200) {
      val at = new Timestamp(file * 10000L + random.nextInt(10000)).toInstant
      s"""{"key":${random.nextInt(40)},"ts":"$at","value":${random.nextInt(100)}}"""
    }
    Files.writeString(directory.resolve(f"$file%05d.json"), lines.mkString("\n"))
    ()
  }
}
