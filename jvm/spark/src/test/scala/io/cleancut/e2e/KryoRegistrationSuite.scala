package io.cleancut.e2e

import java.nio.file.Path
import java.sql.Timestamp

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.{
  OfflineOperation,
  CloneTarget
}
import org.apache.spark.sql.execution.streaming.state.cleancut.operations.stored.{
  OfflineSource,
  StateRows
}
import org.apache.spark.sql.execution.streaming.state.cleancut.session.TestedSpark
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode
import org.apache.spark.sql.{DataFrame, Encoders, SparkSession, classic}

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.testkit.{LoadedStores, LongTest, SmallQueries, TestDirectory}

/** Offline operations in an application whose serializer refuses unregistered classes. */
class KryoRegistrationSuite extends AnyFunSuite with BeforeAndAfterAll {
  private lazy val spark: SparkSession = SmallQueries.session("local[2]")(
    _.config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
      .config("spark.kryo.registrationRequired", "true")
      .config(
        "spark.sql.streaming.stateStore.providerClass",
        classOf[CleancutStateStoreProvider].getName
      )
      .config("spark.sql.shuffle.partitions", "1")
      .config("spark.sql.streaming.join.stateFormatVersion", TestedSpark.JoinFormats.last.toString)
  )

  override protected def afterAll(): Unit = spark.stop()

  private def session = spark.asInstanceOf[classic.SparkSession]

  private class Query(root: Path, mode: OutputMode)(build: DataFrame => DataFrame) {
    private val source = MemoryStream(Encoders.product[Reading], spark)

    def run(keys: Range): Unit = {
      source.addData(keys.map(key => Reading(Some(key.toLong), new Timestamp(1000L), 1L, key > 9)))
      val started = build(source.toDF()).writeStream
        .outputMode(mode)
        .option("checkpointLocation", root.toString)
        .format("noop")
        .start()
      try started.processAllAvailable()
      finally started.stop()
      LoadedStores.stop()
    }
  }

  private def rowsOf(operation: OfflineOperation, root: Path): Long = {
    val done = operation.run(session, root.toString)
    LoadedStores.stop()
    done.operators.flatMap(_.rows).sum
  }

  test("operations on an aggregation require no registered class", LongTest) {
    TestDirectory.use("kryo") { home =>
      val (root, copy) = (home.resolve("q"), home.resolve("copy"))
      val query = new Query(root, OutputMode.Update())(_.groupBy("key").count())
      query.run(0 until 20)
      query.run(0 until 30)
      assert(rowsOf(OfflineOperation.rollback(OfflineSource.Epoch(0)), root) == 20)
      assert(rowsOf(OfflineOperation.rescale(2), root) == 20)
      val state = StateRows(0, "default", "default")
      val kept = OfflineOperation.state(session, root.toString, state).where("key.key < 15")
      assert(rowsOf(OfflineOperation.edit(state, kept), root) == 15)
      val to = CloneTarget(copy.toString, isOtherQuery = true)
      val cloned = OfflineOperation.copy(OfflineSource.Last, to).copy(partitions = Some(1))
      assert(rowsOf(cloned, root) == 15)
    }
  }

  test("an edit of a side of a join requires no registered class") {
    TestDirectory.use("kryo") { home =>
      val root = home.resolve("q")
      val query = new Query(root, OutputMode.Append())({ rows =>
        val timed = rows.withWatermark("ts", "1 hour")
        val (left, right) = (timed.where("left").as("l"), timed.where("not left").as("r"))
        left.join(right, expr("l.key = r.key and r.ts between l.ts and l.ts + interval 1 hour"))
      })
      query.run(0 until 20)
      val side = StateRows(0, "default", "left")
      val kept = OfflineOperation.state(session, root.toString, side).where("value.key < 15")
      assert(rowsOf(OfflineOperation.edit(side, kept), root) > 0)
    }
  }
}
