package io.cleancut.e2e

import java.nio.file.{Files, Path}
import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

import io.cleancut.CleancutSeal
import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.cutstore.CutArchive
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{QueryWaits, TestDirectory}

/** Queries that end because a run of the same query waits for that. */
class HandoverQuerySuite extends AnyFunSuite with CutsSession {
  import HandoverQuerySuite._

  override protected def master: String = "local[2]"

  override protected def partitions: Int = 2

  for (isPipelined <- Seq(false, true))
    test(s"a query completes its epoch, plans no other, and ends: pipelined $isPipelined") {
      in(Keys.PipelinedCuts.name -> isPipelined.toString) { query =>
        (0 until Epochs).foreach(query.add)
        query.afterSeal = epoch => if (epoch == Last) query.await()
        val started = query.start(Trigger.ProcessingTime(0L))
        QueryWaits.end(started)
        assert(started.exception.isEmpty && query.hasEnded(1))
        assert(query.cuts == (0L to Last) && query.planned == query.cuts)
        query.end()
        QueryWaits.end(query.start(Trigger.AvailableNow()))
        assert(query.cuts == (0L until Epochs.toLong) && query.rows == query.batch)
      }
    }

  test("an idle query ends") {
    in(SQLConf.STREAMING_NO_DATA_PROGRESS_EVENT_INTERVAL.key -> "100") { query =>
      query.add(0)
      val started = query.start(Trigger.ProcessingTime(0L))
      QueryWaits.drain(started)
      query.await()
      QueryWaits.end(started)
      assert(started.exception.isEmpty && query.hasEnded(1) && query.planned == Seq(0L))
    }
  }

  test("a start waits for another driver up to the timeout, and then takes the query") {
    in(Keys.HandoverTimeout.name -> "500ms") { query =>
      query.add(0)
      QueryWaits.end(query.start(Trigger.AvailableNow()))
      // A driver that was killed.
      query.take()
      query.add(1)
      QueryWaits.end(query.start(Trigger.AvailableNow()))
      assert(query.waitsFor(3).contains(2L) && query.hasTaken(3))
      assert(query.rows == query.batch)
      // This run has ended, and no other one waits for it.
      query.add(2)
      QueryWaits.end(query.start(Trigger.AvailableNow()))
      assert(query.waitsFor(4).isEmpty && !query.hasTaken(4))
      assert(query.rows == query.batch)
    }
  }

  private def in[A](settings: (String, String)*)(body: Query => A): A =
    TestDirectory.use("handover") { root =>
      val session = spark.newSession()
      settings.foreach { case (key, value) => session.conf.set(key, value) }
      body(new Query(session, root))
    }

  /** A query on files, one in each epoch, with its results by epoch. */
  final private class Query(session: SparkSession, root: Path) {
    private val files = Files.createDirectory(root.resolve("files"))
    private val checkpoint = root.resolve("checkpoint")
    private val results = new ConcurrentHashMap[Long, Map[Long, Long]]
    @volatile var afterSeal: Long => Unit = _ => ()

    def add(number: Int): Unit = {
      val lines = (0 until Rows).map(row => s"""{"number":${number * Rows + row}}""")
      val staged = Files.writeString(root.resolve(s"$number"), lines.mkString("\n"))
      Files.move(staged, files.resolve(f"$number%05d.json"))
      ()
    }

    private def totals(rows: DataFrame) =
      rows.groupBy((rows("number") % Groups).as("key")).count()

    def start(trigger: Trigger): StreamingQuery = {
      val reader = session.readStream.schema("number long").option("maxFilesPerTrigger", 1)
      totals(reader.json(files.toString)).writeStream
        .outputMode("update")
        .option("checkpointLocation", checkpoint.toString)
        .trigger(trigger)
        .foreachBatch { (batch: DataFrame, epoch: Long) =>
          val sealedRows = CleancutSeal.seal(batch, epoch)
          val rows = sealedRows.collect().map(row => row.getLong(0) -> row.getLong(1))
          results.put(epoch, rows.toMap)
          sealedRows.unpersist()
          afterSeal(epoch)
        }
        .start()
    }

    private def archive = {
      val at = new HadoopPath(checkpoint.resolve("cleancut").toUri)
      val conf = session.sparkContext.hadoopConfiguration
      new CutArchive(HadoopStore.open(at, conf, Clock.System), Clock.System)
    }

    /** Another run waits for the end of this one. */
    def await(): Unit = {
      archive.owners.take(None, "successor", "another host", waits = true)
      ()
    }

    /** Another run takes the query. */
    def take(): Unit = {
      archive.owners.take(None, "successor", "another host")
      ()
    }

    /** The other run has ended. */
    def end(): Unit = archive.owners.end(2)

    def hasEnded(generation: Long): Boolean = archive.owners.hasEnded(generation)

    def hasTaken(generation: Long): Boolean = archive.owners.hasTakenOver(generation)

    def waitsFor(generation: Long): Option[Long] =
      archive.owners.find(generation).flatMap(_.waitsFor)

    def cuts: Seq[Long] = archive.cuts.epochs().sorted

    def planned: Seq[Long] =
      checkpoint.resolve("offsets").toFile.list().toSeq.flatMap(_.toLongOption).sorted

    /** The last row of each key. */
    def rows: Map[Long, Long] =
      results.asScala.toSeq.sortBy(_._1).map(_._2).foldLeft(Map.empty[Long, Long])(_ ++ _)

    def batch: Map[Long, Long] =
      totals(session.read.schema("number long").json(files.toString))
        .collect()
        .map(row => row.getLong(0) -> row.getLong(1))
        .toMap
  }
}

private object HandoverQuerySuite {
  private val Epochs = 6
  private val Last = 3L
  private val Rows = 30
  private val Groups = 10L
}
