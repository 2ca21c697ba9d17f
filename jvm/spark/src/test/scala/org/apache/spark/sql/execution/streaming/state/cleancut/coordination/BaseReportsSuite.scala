package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.nio.file.Path

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.classic.SparkSession
import org.apache.spark.sql.execution.streaming.operators.stateful.{
  StatefulOperatorStateInfo,
  StateStoreSaveExec
}
import org.apache.spark.sql.execution.streaming.runtime.{MemoryStream, StreamingQueryWrapper}
import org.apache.spark.sql.execution.streaming.state._
import org.apache.spark.sql.functions.col
import org.apache.spark.sql.streaming.StreamingQuery

import io.cleancut.{CleancutCheckpointFileManager, CleancutStateStoreProvider}
import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.{FrameKind, StoreLayout}
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{Patience, SmallQueries, TestDirectory}

/** The reports of a query on its stores' bases, which maintenance writes asynchronously. */
class BaseReportsSuite extends AnyFunSuite with BeforeAndAfterAll with Patience {
  import BaseReportsSuite._

  private var spark: SparkSession = _

  override protected def beforeAll(): Unit = {
    // The JVM has one maintenance thread, with the interval of its first query.
    StateStore.stop()
    spark = SmallQueries.session("local[2]") {
      _.config("spark.sql.shuffle.partitions", Partitions.size.toString)
        .config(s"$State.providerClass", classOf[CleancutStateStoreProvider].getName)
        .config(s"$State.maintenanceInterval", "100ms")
        .config(s"$State.minDeltasForSnapshot", "2")
        .config(s"$State.coordinatorReportSnapshotUploadLag", "true")
    }
  }

  override protected def afterAll(): Unit = {
    spark.stop()
    StateStore.stop()
  }

  test("progress and Spark's coordinator report the last base of each store") {
    TestDirectory.use("base-reports") { root =>
      checkReports(root) { partition =>
        val files = root.resolve(s"${StoreLayout.RootName}/stores/0/$partition/default").toFile
        files.list.toSeq.flatMap(StoreLayout.parseObjectName).collect {
          case (version, FrameKind.Base) => version.number
        }
      }
    }
  }

  test("progress and Spark's coordinator report the last base of each store with cuts") {
    TestDirectory.use("base-reports-cuts") { root =>
      val confs = Seq(
        "spark.sql.streaming.checkpointFileManagerClass" ->
          classOf[CleancutCheckpointFileManager].getName,
        Keys.Cuts.name -> "true"
      )
      checkReports(root, confs: _*) { partition =>
        val path = new HadoopPath(root.resolve(StoreLayout.RootName).toUri)
        val store = HadoopStore.open(path, new Configuration, Clock.System)
        val archive = new CutArchive(store, Clock.System)
        for {
          epoch <- archive.cuts.epochs()
          chain <- archive.cuts.read(epoch).get.stores if chain.store.partition == partition
          (FrameKind.Base, version, _) <- chain.frames
        } yield version.number
      }
    }
  }

  /** @param bases versions of the bases that the checkpoint has of a partition's store */
  private def checkReports(root: Path, confs: (String, String)*)(bases: Int => Seq[Long]): Unit = {
    val session = spark.newSession()
    confs.foreach { case (key, value) => session.conf.set(key, value) }
    val input = MemoryStream(Encoders.scalaLong, session)
    val query = input
      .toDF()
      .groupBy(col("value"))
      .count()
      .writeStream
      .outputMode("update")
      .option("checkpointLocation", root.toString)
      .foreachBatch { (batch: DataFrame, _: Long) =>
        batch.collect()
        ()
      }
      .start()

    def reported(): Map[Int, Long] = {
      input.addData(0L until 20L)
      query.processAllAvailable()
      instances(query)
    }
    try {
      assert(reported().keySet == Partitions.toSet)
      val first = eventually {
        val versions = reported()
        assert(versions.values.forall(_ > 0L), versions)
        versions
      }
      eventually {
        val later = reported()
        assert(Partitions.forall(p => later(p) > first(p)), s"$later after $first")
        // A cut has each base that was written before it.
        Partitions.foreach(p => assert(bases(p).contains(later(p)), s"partition $p, $later"))
      }
      val coordinator = session.streams.stateStoreCoordinator
      for (p <- Partitions) {
        val id = StateStoreProviderId(stateOf(query), p, StateStoreId.DEFAULT_STORE_NAME)
        val known = coordinator.getLatestSnapshotVersionForTesting(id)
        assert(known.exists(_ > first(p)), s"partition $p, $known after $first")
      }
    } finally query.stop()
  }
}

object BaseReportsSuite {
  private val State = "spark.sql.streaming.stateStore"
  private val Partitions = 0 to 1
  private val Metric = """SnapshotLastUploaded\.partition_(\d+)_default""".r

  private def stateOf(query: StreamingQuery): StatefulOperatorStateInfo = {
    val plan = query.asInstanceOf[StreamingQueryWrapper].streamingQuery.lastExecution.executedPlan
    plan.collectFirst { case save: StateStoreSaveExec => save.stateInfo.get }.get
  }

  /** The last base's version by partition. */
  private def instances(query: StreamingQuery): Map[Int, Long] = {
    var versions = Map.empty[Int, Long]
    query.lastProgress.stateOperators(0).customMetrics.forEach {
      case (Metric(partition), version) => versions += partition.toInt -> version
      case _                            => ()
    }
    versions
  }
}
