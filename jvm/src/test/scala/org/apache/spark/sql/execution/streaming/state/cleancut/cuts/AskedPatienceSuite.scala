package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.concurrent.ConcurrentLinkedQueue

import scala.concurrent.Future
import scala.concurrent.duration._
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.Random

import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.SparkEnv
import org.apache.spark.rpc.{RpcAddress, RpcEndpointRef, RpcTimeout}
import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.StateStore
import org.apache.spark.sql.functions.{length, max}
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.{
  CleancutCheckpointFileManager,
  CleancutExtensions,
  CleancutSeal,
  CleancutStateStoreProvider
}
import io.cleancut.testkit.{ProxiedServer, S3Server, SmallQueries}

/** How long the tasks of a query wait for the answer to each message that they send. */
class AskedPatienceSuite extends AnyFunSuite with ProxiedServer with Eventually {
  import AskedPatienceSuite._

  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(60, Seconds), Span(50, Millis))

  private var spark: SparkSession = _
  private var input: MemoryStream[(Long, Array[Byte])] = _

  override protected def beforeAll(): Unit = {
    super.beforeAll()
    // The thread of maintenance is one for the whole JVM, with the pace of its first query.
    StateStore.stop()
    spark = SmallQueries.session("local[2]")(
      _.config("spark.sql.shuffle.partitions", "1")
        .config("spark.sql.streaming.checkpointFileManagerClass", FileManager)
        .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
        .config(s"$State.maintenanceInterval", "100ms")
        .config(s"$State.minDeltasForSnapshot", "2")
        .config(s"$State.forceSnapshotUploadOnLag", "false")
        .config(s"$State.cleancut.endpoint", endpoint)
        .config(s"$State.cleancut.region", "us-east-1")
        .config("spark.sql.extensions", classOf[CleancutExtensions].getName)
        .config(s"$State.cleancut.mode", "unaligned")
        .config(s"$State.cleancut.requestTimeout", "10m")
    )
    input = MemoryStream(Encoders.product[(Long, Array[Byte])], spark)
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    StateStore.stop()
    super.afterAll()
  }

  private def start(): StreamingQuery = input
    .toDS()
    .toDF("key", "value")
    .groupBy("key")
    .agg(length(max("value")))
    .writeStream
    .outputMode("update")
    .option("checkpointLocation", s"s3://${S3Server.Bucket}/asked-patience")
    .foreachBatch { (batch: DataFrame, epoch: Long) =>
      // Rows stay in flight only where the sink seals.
      CleancutSeal.seal(batch, epoch).collect()
      ()
    }
    .start()

  private def epoch(query: StreamingQuery, keys: Long): Unit = {
    val random = new Random(7)
    input.addData((0L until keys).map(key => key -> random.nextBytes(ValueBytes)))
    query.processAllAvailable()
  }

  test("whatever a task asks, it waits longer than the coordinator's request may take") {
    val query = start()
    try {
      epoch(query, keys = 1)
      val asked = new ConcurrentLinkedQueue[(String, FiniteDuration)]
      CutsClient.known = CutsClient.known.map { case (env, ref) =>
        env -> new Noting(ref, (message, patience) => asked.add(message -> patience))
      }
      epoch(query, Keys)
      eventually {
        epoch(query, keys = 1)
        assert(Expected.diff(asked.asScala.map(_._1).toSet) == Set.empty)
      }
      val short = asked.asScala.filter(_._2 <= 10.minutes).toSet
      assert(short == Set.empty)
    } finally query.stop()
  }
}

object AskedPatienceSuite {
  private val State = "spark.sql.streaming.stateStore"
  private val FileManager = classOf[CleancutCheckpointFileManager].getName

  // A base of several parts is announced.
  private val Keys = 12000L
  private val ValueBytes = 1000

  private val Expected =
    Set("Open", "OpenChannel", "Arrived", "AwaitOvertaken", "Submit", "Announce", "Report")

  /** Notes what is asked of an endpoint, and how long for. */
  final private class Noting(under: RpcEndpointRef, note: (String, FiniteDuration) => Any)
      extends RpcEndpointRef(SparkEnv.get.conf) {
    override def address: RpcAddress = under.address

    override def name: String = under.name

    override def send(message: Any): Unit = under.send(message)

    override def ask[T: ClassTag](message: Any, timeout: RpcTimeout): Future[T] = {
      val asked = CutsMessages.decode[CutsMessage](message.asInstanceOf[Array[Byte]])
      note(asked.getClass.getSimpleName, timeout.duration)
      under.ask[T](message, timeout)
    }
  }
}
