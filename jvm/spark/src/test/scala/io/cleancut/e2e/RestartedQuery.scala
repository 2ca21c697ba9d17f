package io.cleancut.e2e

import java.util.concurrent.atomic.AtomicLong

import org.scalatest.Suite

import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskStart}
import org.apache.spark.sql.Encoders
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.testkit.{ProxiedServer, S3Server, SmallQueries}

/** A query on a bucket that is restarted as in a new process. */
trait RestartedQuery extends ProxiedServer { this: Suite =>
  protected val location: String = s"s3://${S3Server.Bucket}/started"
  protected var spark: SparkSession = _
  private var input: MemoryStream[Long] = _

  /** Further configuration of the session. */
  protected def settings: Map[String, String] = Map.empty

  /** Launch of the first task by `System.nanoTime`, after a test has set it to its maximum. */
  protected val firstTaskNs = new AtomicLong(Long.MaxValue)

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    spark = SmallQueries.session("local[2]")(_.config(SmallQueries.inBucket(endpoint) ++ settings))
    input = MemoryStream(Encoders.scalaLong, spark)
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskStart(task: SparkListenerTaskStart): Unit = {
        val ageMs = System.currentTimeMillis() - task.taskInfo.launchTime
        firstTaskNs.compareAndSet(Long.MaxValue, System.nanoTime() - ageMs * 1000000)
        ()
      }
    })
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    super.afterAll()
  }

  protected def start(): StreamingQuery = SmallQueries.counting(input, location)

  protected def addInput(): Unit = {
    input.addData(0L until 50L)
    ()
  }

  /** Runs epochs in a query that starts without loaded stores, as in a new process. */
  protected def run(epochs: Int): Unit = {
    val query = start()
    try
      for (_ <- 0 until epochs) {
        addInput()
        query.processAllAvailable()
      }
    finally {
      query.stop()
      StateStore.stop()
    }
  }
}
