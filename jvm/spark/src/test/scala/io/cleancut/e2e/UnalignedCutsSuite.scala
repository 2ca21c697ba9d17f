package io.cleancut.e2e

import java.nio.file.Path
import java.util.concurrent.{ConcurrentHashMap, TimeUnit}

import scala.jdk.CollectionConverters._

import org.apache.hadoop.conf.Configuration
import org.apache.hadoop.fs.{Path => HadoopPath}
import org.scalatest.Assertion
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.{DataFrame, Encoders}
import org.apache.spark.sql.execution.SimpleMode
import org.apache.spark.sql.execution.streaming.runtime.MemoryStream
import org.apache.spark.sql.streaming._

import io.cleancut.CleancutSeal
import io.cleancut.base.Clock
import io.cleancut.conf.Keys
import io.cleancut.cutstore.CutArchive
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore.hadoop.HadoopStore
import io.cleancut.testkit.{LongTest, Patience, TestDirectory}

/** A row of a key; rows arrive in the order of their numbers. Rows of `slow` keys take long. */
final case class Numbered(key: Long, number: Long, slow: Boolean)

/** The state of a key: its last number and its number of rows. */
final case class Reached(last: Long, rows: Long)

final case class Passed(key: Long, number: Long, before: Long)

/**
 * Queries with a slow key, which are cut while its rows are in flight. Each row must pass the
 * operator once, and after the earlier rows of its key.
 */
class UnalignedCutsSuite extends AnyFunSuite with CutsSession {
  import UnalignedCutsSuite._

  override protected def master: String = "local[4]"

  override protected def partitions: Int = 4

  test("a query with mode unaligned and without cuts is refused, and can be explained") {
    TestDirectory.use("uncut") { root =>
      val session = spark.newSession()
      session.conf.set(Keys.Cuts.name, "false")
      session.conf.set(Keys.Mode.name, "unaligned")
      val counted = MemoryStream(Encoders.scalaLong, session).toDF().groupBy("value").count()
      counted.queryExecution.explainString(SimpleMode)
      val refused = intercept[IllegalArgumentException] {
        val location = root.toString
        val writer = counted.writeStream.outputMode("update").option("checkpointLocation", location)
        writer.format("noop").start()
      }
      assert(refused.getMessage.startsWith("[CLEANCUT_MODE_REQUIRES_CUTS]"))
      assert(refused.getMessage.contains(root.toString))
      assert(refused.getMessage.contains(s"${Keys.Cuts.name}=true"))
    }
  }

  test(
    "a slow key of flatMapGroupsWithState is overtaken, and later epochs process its rows",
    LongTest
  ) {
    TestDirectory.use("unaligned") { root =>
      val run = new SlowQuery(root)
      run.start("unaligned")
      (0 until 6).foreach(epoch => run.feed(epoch, slowRows = if (epoch == 0) 0 else 150))
      val inFlight = run.cuts.map(_.inFlight.size)
      info(s"epochs ${run.cuts.size}, with in-flight rows ${inFlight.count(_ > 0)}")
      assert(inFlight.exists(_ > 0), "no epoch was cut unaligned")
      run.drain()
      run.check()
      assert(run.cuts.last.inFlight.isEmpty, "rows are left in flight")
      run.stop()
    }
  }

  // `UnalignedQueriesSuite` restarts randomized queries in other modes too.
  for ((mode, tags) <- Seq("aligned" -> Nil, "unaligned" -> Seq(LongTest)))
    test(s"a run in mode $mode processes the in-flight rows of the previous run", tags: _*) {
      TestDirectory.use("unaligned") { root =>
        val run = new SlowQuery(root)
        run.start("unaligned")
        (0 until 4).foreach(epoch => run.feed(epoch, slowRows = if (epoch == 0) 0 else 400))
        run.stop()
        assert(run.cuts.last.inFlight.nonEmpty, "no row was in flight at the stop")
        run.start(mode)
        run.feed(4, slowRows = 0)
        run.drain()
        run.check()
        run.stop()
      }
    }

  /** A query with its input and the rows of its sink, through several runs. */
  final private class SlowQuery(root: Path) {
    private val session = spark.newSession()
    private val input = MemoryStream(Encoders.product[Numbered], session)
    private val seen = new ConcurrentHashMap[Long, Seq[Passed]]
    private var fed = Vector.empty[Numbered]
    private var query: StreamingQuery = _

    def feed(epoch: Int, slowRows: Int): Unit = {
      val rows = (0 until slowRows).map(i => Numbered(0L, epoch * 1000L + i, slow = true)) ++
        (1L to 40L).map(key => Numbered(key, epoch * 1000L, slow = false))
      fed ++= rows
      input.addData(rows)
      val before = query.lastProgress
      val deadline = System.nanoTime + TimeUnit.SECONDS.toNanos(Patience.Seconds)
      def batch(progress: StreamingQueryProgress) = Option(progress).fold(-1L)(_.batchId)
      while (query.isActive && batch(query.lastProgress) <= batch(before)) {
        assert(System.nanoTime < deadline, "no epoch in a minute")
        Thread.sleep(5)
      }
      query.exception.foreach(throw _)
    }

    def drain(): Unit = query.processAllAvailable()

    def stop(): Unit = query.stop()

    def cuts: Seq[Cut] = {
      val store =
        HadoopStore.open(
          new HadoopPath(root.resolve("cleancut").toUri),
          new Configuration,
          Clock.System
        )
      val archive = new CutArchive(store, Clock.System)
      archive.cuts.epochs().flatMap(archive.cuts.read)
    }

    def check(): Assertion = {
      val passed = seen.asScala.toSeq.sortBy(_._1).flatMap(_._2)
      val expected = fed.map(row => (row.key, row.number)).sorted
      assert(passed.map(p => (p.key, p.number)).sorted == expected, "rows are lost or duplicated")
      val disorder = passed.filter(p => p.number <= p.before)
      assert(disorder.isEmpty, "rows of a key are out of order")
    }

    def start(mode: String): Unit = {
      import session.implicits._
      session.conf.set(Keys.Mode.name, mode)
      query = input
        .toDS()
        .groupByKey(_.key)
        .flatMapGroupsWithState[Reached, Passed](
          OutputMode.Append(),
          GroupStateTimeout.NoTimeout()
        )(slowly)
        .toDF()
        .writeStream
        .option("checkpointLocation", root.toString)
        .foreachBatch { (batch: DataFrame, epoch: Long) =>
          val kept = CleancutSeal.seal(batch, epoch)
          seen.put(epoch, kept.as[Passed].collect().toSeq)
          kept.unpersist()
          ()
        }
        .start()
    }
  }
}

object UnalignedCutsSuite {
  private val RowMs = 5L

  private[e2e] def slowly(
      key: Long,
      rows: Iterator[Numbered],
      state: GroupState[Reached]
  ): Iterator[Passed] = {
    var reached = state.getOption.getOrElse(Reached(-1L, 0L))
    val out = rows.map { row =>
      if (row.slow) Thread.sleep(RowMs)
      val passed = Passed(key, row.number, reached.last)
      reached = Reached(row.number, reached.rows + 1)
      passed
    }.toVector
    state.update(reached)
    out.iterator
  }
}
