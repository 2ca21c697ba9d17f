package org.apache.spark.sql.execution.streaming.state.cleancut.operations.start

import java.util.concurrent.atomic.AtomicInteger

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.scheduler.{SparkListener, SparkListenerJobStart}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.classic
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.streaming.Trigger

import io.cleancut.CleancutSeal
import io.cleancut.e2e.{CutsSession, NumberedFiles}
import io.cleancut.testkit.{QueryWaits, TestDirectory}

class SnapshotPrefetchSuite extends AnyFunSuite with CutsSession {
  import SnapshotPrefetchSuite._

  override protected def master: String = "local[2]"

  override protected def partitions: Int = 2

  test("no job runs unless there are new snapshots") {
    TestDirectory.use("prefetch") { root =>
      val session = spark.newSession()
      session.conf.set(SQLConf.STATE_STORE_MIN_DELTAS_FOR_SNAPSHOT.key, "1")
      val files = new NumberedFiles(session, root)
      val jobs = new AtomicInteger
      session.sparkContext.addSparkListener(new SparkListener {
        override def onJobStart(start: SparkListenerJobStart): Unit = {
          jobs.incrementAndGet()
          ()
        }
      })
      // The first epoch of a run writes the overdue snapshots of the run before.
      def run(first: Int): Unit = {
        (first until first + Overdue).foreach(files.add)
        val query = files
          .totals(files.input())
          .writeStream
          .outputMode("update")
          .option("checkpointLocation", files.checkpoint.toString)
          .trigger(Trigger.AvailableNow())
          .foreachBatch { (batch: DataFrame, epoch: Long) =>
            files.publish(epoch, CleancutSeal.seal(batch, epoch))
          }
          .start()
        QueryWaits.end(query)
      }
      run(first = 0)
      run(first = Overdue)
      val prefetch = new SnapshotPrefetch(
        session.asInstanceOf[classic.SparkSession],
        files.checkpoint.toUri.toString,
        files.archive
      )
      def jobsOfPass(): Int = {
        session.sparkContext.listenerBus.waitUntilEmpty()
        val before = jobs.get
        prefetch.run(files.cuts.lastOption)
        session.sparkContext.listenerBus.waitUntilEmpty()
        jobs.get - before
      }
      assert(jobsOfPass() == 1)
      assert(jobsOfPass() == 0)
      run(first = 2 * Overdue)
      assert(jobsOfPass() == 1)
      assert(jobsOfPass() == 0)
    }
  }
}

private object SnapshotPrefetchSuite {

  /** Number of epochs after which a snapshot is overdue. */
  private val Overdue = 4
}
