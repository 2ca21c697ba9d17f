package org.apache.spark.sql.execution.streaming.state.cleancut

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow

import io.cleancut.testkit.Seeded

/** A channel and the worker that it feeds, of which the function is behind by a drawn distance. */
class WorkerChannelSuite extends AnyFunSuite with Seeded {
  import ChannelCases._
  import WorkerChannelSuite._

  test("rows on their way to the worker stay in flight, and then those behind them") {
    val port = new Port(overtakenAt = 59)
    val worker = new Worker(behind = 25)
    val rows = numbered(100, keys = 7, new Random(1))
    worker.fed(rows, port)
    assert(worker.handed == rows.take(60))
    assert(worker.seen == rows.take(35) && port.kept == rows.drop(35))
    assert(port.report.input.rows == 100 && port.report.deferred.rows == 65)
  }

  test("rows on their way stay in flight when the task has no more when it is overtaken") {
    val port = new Port(overtakenAt = 1000)
    val worker = new Worker(behind = 40)
    val rows = numbered(50, keys = 3, new Random(2))
    worker.fed(rows, port)
    assert(worker.handed == rows)
    assert(worker.seen == rows.take(10) && port.kept == rows.drop(10))
  }

  test("the function sees the first row in any case") {
    val port = new Port(overtakenAt = 0)
    val worker = new Worker(behind = 1000)
    val rows = numbered(50, keys = 3, new Random(3))
    worker.fed(rows, port)
    assert(worker.seen == rows.take(1) && port.kept == rows.drop(1))
  }

  test("nothing is lost, late or out of order, whatever the function has seen") {
    var recalled, behind = 0
    forSeeds(400) { random =>
      val share = Seq(0.0, 0.02, 0.2)(random.nextInt(3))
      val rows = numbered(400, keys = 1 + random.nextInt(8), random, lateShare = share)
      val sorted = if (random.nextBoolean()) rows.sortBy(_.key) else rows
      val at = random.nextInt(500)
      val port = new Port(overtakenAt = at)
      val worker = new Worker(behind = random.nextInt(300))
      val maxBytes = if (random.nextInt(3) == 0) 4096L else 1L << 20
      worker.fed(sorted, port, maxBytes)
      val seen = worker.seen
      val dropped = sorted.filter(row => Schema.isDropped(unsafe(row)))
      assert((seen ++ port.kept ++ dropped).sorted == rows.sorted)
      assert(seen.headOption == sorted.find(row => !Schema.isDropped(unsafe(row))))
      assert(!port.kept.exists(_.isLate), "a late row stays in flight")
      for ((key, of) <- (seen ++ port.kept).groupBy(_.key))
        assert(of.map(_.number) == of.map(_.number).sorted, s"key $key is out of order")
      assert(port.kept.size * 32 <= maxBytes)
      assert(port.report.input.rows == 400 && port.report.deferred.rows == port.kept.size)
      if (worker.skipped.isDefined) recalled += 1
      if (worker.handed.size > at + 1 && port.kept.nonEmpty) behind += 1
    }
    assert(recalled > 100 && behind > 20, "hardly any case had what the test is about")
  }

  test("two sorted inputs become one, and of equal rows those of the first come first") {
    forSeeds(100) { random =>
      val first = numbered(random.nextInt(30), keys = 5, random).sortBy(_.key)
      val second = numbered(random.nextInt(30), keys = 5, random).map(row =>
        row.copy(number = row.number + 100)
      )
      val ordered = second.sortBy(_.key)
      val order = Ordering.by((row: InternalRow) => row.getLong(0))
      val merged =
        new MergedRows(first.iterator.map(unsafe), ordered.iterator.map(unsafe), order)
      assert(merged.map(parse).toSeq == (first ++ ordered).sorted)
    }
  }
}

object WorkerChannelSuite {
  import ChannelCases._

  /**
   * @param behind
   *   rows that it has been handed and the function has not
   */
  final private class Worker(behind: Int) extends WorkerShare {
    val handed = mutable.ArrayBuffer.empty[Case]
    private var decision: (Long, Long) = _
    private var first = -1L

    override def taken: Long = math.max(0L, handed.size - behind.toLong)
    override def skipped: Option[Long] = Some(first).filter(_ >= 0)
    override def decide(stop: Long, resume: Long): Unit = {
      assert(decision == null, "it decided twice")
      decision = (stop, resume)
      val skipped = math.max(stop, taken)
      if (skipped < resume) first = skipped
    }

    /** Runs a channel to its end, and the worker with it; by then the task is overtaken. */
    def fed(rows: Seq[Case], port: Port, maxBytes: Long = 1 << 20): Unit = {
      val channel = new WorkerChannel(rows.iterator.map(unsafe), Schema, port, this, maxBytes)
      channel.foreach(row => if (!Schema.isDropped(row)) handed += parse(row))
      channel.finish()
    }

    def seen: Seq[Case] =
      if (first < 0) handed.toSeq
      else handed.toSeq.take(first.toInt) ++ handed.toSeq.drop(decision._2.toInt)
  }
}
