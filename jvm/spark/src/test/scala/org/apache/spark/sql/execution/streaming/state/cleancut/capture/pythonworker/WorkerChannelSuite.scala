package org.apache.spark.sql.execution.streaming.state.cleancut.capture.pythonworker

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators.ChannelCases
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.{
  AlternatingRows,
  DecidingChannel,
  GroupedOrder,
  MergedRows
}

import io.cleancut.testkit.{Draws, Seeded}

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

  test("beyond the bound the first of the rows behind are handed on, until the rest fits") {
    val rows = numbered(100, keys = 7, new Random(4)).sorted
    val rowBytes = unsafe(rows.head).getSizeInBytes.toLong
    val port = new Port(overtakenAt = 59)
    val worker = new Worker(behind = 25)
    worker.fed(rows, port, maxBytes = 10 * rowBytes + 1)
    assert(worker.seen == rows.take(90) && port.kept == rows.drop(90))
    assert(port.beyondBound == 30)
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
    assert(
      recalled > Draws.of(40) && behind > Draws.of(20),
      "hardly any case had what the test is about"
    )
  }

  test("of groups that are not split the function sees all rows or none") {
    var recalled, behind, split = 0
    forSeeds(400) { random =>
      val share = Seq(0.0, 0.02, 0.2)(random.nextInt(3))
      val keys = 1 + random.nextInt(40)
      val rows = numbered(400, keys, random, lateShare = share).sorted
      val at = random.nextInt(500)
      val port = new Port(overtakenAt = at)
      val worker = new Worker(behind = random.nextInt(300), splitsGroups = false)
      val maxBytes = if (random.nextInt(3) == 0) 4096L else 1L << 20
      worker.fed(rows, port, maxBytes)
      val seen = worker.seen
      val dropped = rows.filter(row => Schema.isDropped(unsafe(row)))
      assert((seen ++ port.kept ++ dropped).sorted == rows)
      assert(seen.map(_.key).toSet.intersect(port.kept.map(_.key).toSet).isEmpty)
      assert(seen.headOption == rows.find(row => !Schema.isDropped(unsafe(row))))
      assert(!port.kept.exists(_.isLate), "a late row stays in flight")
      assert(port.kept.size * 32 <= maxBytes)
      if (worker.skipped.isDefined) recalled += 1
      if (worker.handed.size > at + 1 && port.kept.nonEmpty) behind += 1
      if (port.kept.nonEmpty && at < 400 && at > 0 && rows(at).key == rows(at - 1).key) split += 1
    }
    info(s"$recalled cases with rows recalled, $behind with some behind, $split within a group")
    assert(
      recalled > Draws.of(40) && behind > Draws.of(20) && split > Draws.of(50),
      "hardly any case had what it is about"
    )
  }

  test("keys begin behind the one that was cut, each comes once, its earlier rows first") {
    forSeeds(200) { random =>
      val keys: Ordering[InternalRow] = Ordering.by(_.getLong(0))
      val byNumber: Ordering[InternalRow] = Ordering.by(row => (row.getLong(0), row.getLong(1)))
      // Some operators require the rows of a key sorted as well.
      val order = GroupedOrder(keys, if (random.nextBoolean()) keys else byNumber)
      val splitsGroups = random.nextBoolean()
      // What an epoch left that began behind key `turn`, and what came since.
      val turn = random.nextInt(8)
      def inTurn(of: Seq[Case]) = of.sortBy(row => ((row.key - turn + 8) % 8, row.number))
      val earlier = inTurn(numbered(1 + random.nextInt(30), keys = 8, random))
        .drop(random.nextInt(3))
      val later = numbered(random.nextInt(30), keys = 8, random)
        .map(row => row.copy(number = row.number + 100))
      val port = new Port
      val buffer = port.newBuffer()
      earlier.foreach(row => buffer.add(unsafe(row)))
      val rows = AlternatingRows(
        buffer,
        later.sorted.iterator.map(unsafe),
        order,
        splitsGroups,
        port.newBuffer()
      ).map(parse).toVector
      assert(rows.sorted == (earlier ++ later).sorted)
      val found = rows.map(_.key)
      val once = found.zip(found.drop(1)).count { case (a, b) => a != b } + 1
      assert(rows.isEmpty || once == found.distinct.size, s"a key comes twice: $found")
      for ((key, of) <- rows.groupBy(_.key)) assert(of == of.sorted, s"key $key is out of order")
      for (cut <- earlier.headOption)
        assert((if (splitsGroups) found.last else found.head) == cut.key)
    }
  }

  test("no key starves while the task is cut in another one in each epoch") {
    for (splitsGroups <- Seq(true, false)) {
      val order: Ordering[InternalRow] = Ordering.by(_.getLong(0))
      var left = Seq.empty[Case]
      val passed = (0 until 40).flatMap { epoch =>
        val batch = Seq.tabulate(60)(i => Case(if (i < 50) 3L else i % 6L, epoch * 100L + i, false))
        val port = new Port(overtakenAt = 25)
        val buffer = port.newBuffer()
        left.foreach(row => buffer.add(unsafe(row)))
        val sorted = batch.sorted.iterator.map(unsafe)
        val rows =
          AlternatingRows(
            buffer,
            sorted,
            GroupedOrder(order, order),
            splitsGroups,
            port.newBuffer()
          )
        val channel = new DecidingChannel(rows, Schema, port, 1L << 20, splitsGroups)
        val here = channel.map(parse).toVector
        left = port.kept
        here.map(epoch -> _)
      }
      // Within two epochs, but for the key that gets more than is taken in.
      for ((epoch, row) <- passed if row.key != 3)
        assert(epoch - row.number / 100 <= 2, s"$row waited until epoch $epoch")
    }
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
  final private class Worker(behind: Int, splitsGroups: Boolean = true) extends WorkerShare {
    val handed = mutable.ArrayBuffer.empty[Case]
    private var decision: (Long, Long) = _
    private var first = -1L

    override def taken: Long = math.max(0L, handed.size - behind.toLong)
    override def skipped: Option[Long] = Some(first).filter(_ >= 0)
    override def decide(stop: Long, resume: Long): Unit = {
      assert(decision == null, "it decided twice")
      decision = (stop, resume)
      val skipped = math.max(stop, if (splitsGroups) taken else endOfGroup(taken))
      assert(splitsGroups || skipped == endOfGroup(skipped), "it decided within a group")
      if (skipped < resume) first = skipped
    }

    /** The function has begun a group of which it has seen a row. */
    private def endOfGroup(rows: Long): Long = {
      val (seen, others) = handed.splitAt(rows.toInt)
      rows + seen.lastOption.fold(0)(last => others.takeWhile(_.key == last.key).size)
    }

    /** Runs a channel to its end, and the worker with it; by then the task is overtaken. */
    def fed(rows: Seq[Case], port: Port, maxBytes: Long = 1 << 20): Unit = {
      val channel =
        new WorkerChannel(rows.iterator.map(unsafe), Schema, port, this, maxBytes, splitsGroups)
      channel.foreach(row => if (!Schema.isDropped(row)) handed += parse(row))
      channel.finish()
    }

    def seen: Seq[Case] =
      if (first < 0) handed.toSeq
      else handed.toSeq.take(first.toInt) ++ handed.toSeq.drop(decision._2.toInt)
  }
}
