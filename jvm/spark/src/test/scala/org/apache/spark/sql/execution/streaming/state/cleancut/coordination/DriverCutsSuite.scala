package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.nio.file.Path

import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{Dataset, Encoders}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.CleancutSeal
import io.cleancut.base.{Clock, StoreId}
import io.cleancut.conf.Keys
import io.cleancut.coordinator.state.TaskStart
import io.cleancut.cutstore.CutArchive
import io.cleancut.e2e.CutsSession
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.protocol.Refusal
import io.cleancut.testkit.{Patience, TestDirectory}

/** A driver watches for slow tasks only while a query runs. */
class DriverCutsSuite extends AnyFunSuite with CutsSession with Patience {
  override protected def master: String = "local[2]"

  override protected def partitions: Int = 2

  test("a query is watched while it runs, and not after it has ended") {
    TestDirectory.use("watched") { root =>
      val location = s"file:$root"
      val input = MemoryStream(Encoders.scalaLong, spark)
      // The first epoch of a run is aligned.
      for (step <- 0 until 2) {
        val query = start(input, root)
        input.addData(step * 1000L)
        query.processAllAvailable()
        input.addData(step * 1000L + 1 until step * 1000L + 100)
        eventually(assert(DriverCuts.isWatched(location)))
        query.processAllAvailable()
        query.stop()
        eventually(assert(!DriverCuts.isWatched(location)))
        assert(DriverCuts.status(location, session).committed.exists(_ > 2 * step))
      }
    }
  }

  test("an ended query leaves no state or settings in the driver") {
    TestDirectory.use("ended") { root =>
      val location = s"file:$root"
      val input = MemoryStream(Encoders.scalaLong, spark)
      def run(epochs: Int, kept: Int): Assertion = {
        spark.conf.set("spark.sql.streaming.minBatchesToRetain", kept.toString)
        val query = start(input, root)
        for (_ <- 0 until epochs) {
          input.addData(1L)
          query.processAllAvailable()
        }
        assert(DriverCuts.of(location).exists(_.status.run.isDefined))
        query.stop()
        eventually(assert(DriverCuts.of(location).isEmpty))
      }
      val below = new HadoopPath(root.resolve("cleancut").toUri)
      val conf = session.sparkContext.hadoopConfiguration
      val archive = new CutArchive(HadoopStore.open(below, conf, Clock.System), Clock.System)
      run(epochs = 2, kept = 100)
      val status = DriverCuts.status(location, session)
      assert(status.run.isEmpty && status.committed == archive.cuts.epochs().lastOption)
      // Garbage is collected after every 20th epoch, with the settings of the run's start.
      run(epochs = 22, kept = 2)
      eventually(assert(archive.cuts.epochs().head > 10))
    }
  }

  test("a late task does not restart its ended run") {
    TestDirectory.use("late") { root =>
      val location = s"file:$root"
      val input = MemoryStream(Encoders.scalaLong, spark)
      def late(run: String) = {
        val store = StoreId(0L, 0, "default")
        CutsClient.ask(Start(location, run, TaskStart(1L, 0L, 0, 1L, Seq(store))), Clock.System, 0L)
      }
      def begun() = {
        val query = start(input, root)
        input.addData(1L)
        query.processAllAvailable()
        query
      }
      val first = begun()
      val gone = first.runId.toString
      assert(late(gone).isInstanceOf[StartReply])
      first.stop()
      eventually(assert(late(gone) == Declined(Refusal.Ended(gone))))
      val second = begun()
      val by = Refusal.Fenced(s"run ${second.runId} of the same driver")
      assert(late(gone) == Declined(by))
      assert(DriverCuts.of(location).exists(_.status.run.exists(_.generation == 2)))
      second.stop()
    }
  }

  private def session = spark.asInstanceOf[SparkSession]

  private def start(input: MemoryStream[Long], root: Path): StreamingQuery = {
    spark.conf.set(Keys.Mode.name, "unaligned")
    input
      .toDS()
      .dropDuplicates("value")
      .map { (value: Long) =>
        Thread.sleep(2)
        value
      }(Encoders.scalaLong)
      .writeStream
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: Dataset[Long], epoch: Long) =>
        CleancutSeal.seal(batch, epoch).collect()
        ()
      }
      .start()
  }
}
