package io.cleancut.testkit

import scala.util.Random

import org.scalatest.Suite

import org.apache.spark.sql.Encoders
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream

import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}

/** Queries on an S3 server whose maintenance soon writes a base of several parts. */
trait LargeBases extends ProxiedServer { this: Suite =>
  import LargeBases._

  protected var spark: SparkSession = _
  protected var input: MemoryStream[(Long, Array[Byte])] = _

  /** Additional configuration. */
  protected def further: Map[String, String]

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    // The JVM has one maintenance thread, with the interval of its first query.
    LoadedStores.stop()
    spark = SmallQueries.session("local[2]")(
      _.config("spark.sql.shuffle.partitions", "1")
        .config(
          "spark.sql.streaming.checkpointFileManagerClass",
          classOf[CleancutCheckpointFileManager].getName
        )
        .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
        .config(s"$State.maintenanceInterval", "100ms")
        // Otherwise Spark has the task write a base, and the task waits for it.
        .config(s"$State.forceSnapshotUploadOnLag", "false")
        .config(s"$State.minDeltasForSnapshot", "2")
        .config(s"$State.cleancut.s3.endpoint", endpoint)
        .config(s"$State.cleancut.s3.region", "us-east-1")
        .config(s"$State.cleancut.requestTimeout", "10m")
        .config(further)
    )
    input = MemoryStream(Encoders.product[(Long, Array[Byte])], spark)
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    LoadedStores.stop()
    super.afterAll()
  }

  /** Adds rows of one kilobyte each. */
  protected def addLarge(keys: Long): Unit = {
    val random = new Random(7)
    input.addData((0L until keys).map(key => key -> random.nextBytes(ValueBytes)))
    ()
  }
}

object LargeBases {
  private val State = "spark.sql.streaming.stateStore"
  private val ValueBytes = 1000

  /** Number of keys for a base of several parts. */
  val Keys = 12000L
}
