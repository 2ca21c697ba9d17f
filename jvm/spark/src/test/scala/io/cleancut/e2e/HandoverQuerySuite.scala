package io.cleancut.e2e

import java.nio.file.Path

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, SparkSession}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.{StreamingQuery, Trigger}

import io.cleancut.CleancutSeal
import io.cleancut.conf.Keys
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
    private val files = new NumberedFiles(session, root)
    import files.archive
    @volatile var afterSeal: Long => Unit = _ => ()

    def add(number: Int): Unit = files.add(number)

    def start(trigger: Trigger): StreamingQuery =
      files
        .totals(files.input())
        .writeStream
        .outputMode("update")
        .option("checkpointLocation", files.checkpoint.toString)
        .trigger(trigger)
        .foreachBatch { (batch: DataFrame, epoch: Long) =>
          val sealedRows = CleancutSeal.seal(batch, epoch)
          files.publish(epoch, sealedRows)
          sealedRows.unpersist()
          afterSeal(epoch)
        }
        .start()

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

    def cuts: Seq[Long] = files.cuts
    def planned: Seq[Long] = files.entries("offsets")
    def rows: Map[Long, Long] = files.rows
    def batch: Map[Long, Long] = files.batch
  }
}

private object HandoverQuerySuite {
  private val Epochs = 6
  private val Last = 3L
}
