package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.nio.file.Path

import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.sql.{Dataset, Encoders}
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.CleancutSeal
import io.cleancut.conf.Keys
import io.cleancut.e2e.WithCuts
import io.cleancut.testkit.TestDirectory

/** A driver looks for tasks that are late as long as a query has some, however many it has had. */
class DriverCutsSuite extends AnyFunSuite with WithCuts with Eventually {
  implicit override def patienceConfig: PatienceConfig =
    PatienceConfig(timeout = Span(60, Seconds), interval = Span(1, Millis))

  override protected def master: String = "local[2]"

  override protected def partitions: Int = 2

  test("a query is watched while its tasks run, and no more when it has ended") {
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
        assert(DriverCuts.of(location).exists(_.status.committed.exists(_ > 2 * step)))
      }
    }
  }

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
