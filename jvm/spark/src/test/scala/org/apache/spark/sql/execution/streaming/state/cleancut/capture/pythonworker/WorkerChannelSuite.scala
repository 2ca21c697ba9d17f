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

/** A channel that feeds a worker, whose function lags by a randomized number of rows. */
class WorkerChannelSuite extends AnyFunSuite with Seeded {
  import ChannelCases._
  import WorkerChannelSuite._

  test("rows that the function has not processed stay in flight, and those after them") {
    val port = new Port(overtakenAt = 59)
    val worker = new Worker(lag = 25)
    val rows = numbered(100, keys = 7, new Random(1))
    worker.feed(rows, port)
    assert(worker.sent == rows.take(60))
    assert(worker.seen == rows.take(35) && port.kept == rows.drop(35))
    assert(port.report.input.rows == 100 && port.report.deferred.rows == 65)
  }

  test("rows that the function has not processed stay in flight, although all have been sent") {
    val port = new Port(overtakenAt = 1000)
    val worker = new Worker(lag = 40)
    val rows = numbered(50, keys = 3, new Random(2))
    worker.feed(rows, port)
    assert(worker.sent == rows)
    assert(worker.seen == rows.take(10) && port.kept == rows.drop(10))
  }

  test("the function always processes the first row") {
    val port = new Port(overtakenAt = 0)
    val worker = new Worker(lag = 1000)
    val rows = numbered(50, keys = 3, new Random(3))
    worker.feed(rows, port)
    assert(worker.seen == rows.take(1) && port.kept == rows.drop(1))
  }

  test("beyond the limit the first of the lagging rows are processed, until the rest fits") {
    val rows = numbered(100, keys = 7, new Random(4)).sorted
    val rowBytes = unsafe(rows.head).getSizeInBytes.toLong
    val port = new Port(overtakenAt = 59)
    val worker = new Worker(lag = 25)
    worker.feed(rows, port, maxBytes = 10 * rowBytes + 1)
    assert(worker.seen == rows.take(90) && port.kept == rows.drop(90))
    assert(port.beyondBound == 30)
  }

  test("rows that the function has received are forgotten, and no others") {
    val port = new Port(overtakenAt = 280)
    val worker = new Worker(lag = 0, received = 100)
    val rows = numbered(300, keys = 7, new Random(5))
    worker.feed(rows, port)
    assert(worker.seen == rows.take(100) && port.kept == rows.drop(100))
  }

  test("no row is lost, late or out of order, however far the function lags") {
    var recalled, lagging = 0
    forSeeds(400) { random =>
      val share = Seq(0.0, 0.02, 0.2)(random.nextInt(3))
      val rows = numbered(400, keys = 1 + random.nextInt(8), random, lateShare = share)
      val sorted = if (random.nextBoolean()) rows.sortBy(_.key) else rows
      val at = random.nextInt(500)
      val port = new Port(overtakenAt = at)
      val worker = new Worker(lag = random.nextInt(300))
      val maxBytes = if (random.nextInt(3) == 0) 4096L else 1L << 20
      worker.feed(sorted, port, maxBytes)
      val seen = worker.seen
      val dropped = sorted.filter(row => Schema.isDropped(unsafe(row)))
      assert((seen ++ port.kept ++ dropped).sorted == rows.sorted)
      assert(seen.headOption == sorted.find(row => !Schema.isDropped(unsafe(row))))
      assert(!port.kept.exists(_.isLate), "a late row stayed in flight")
      for ((key, rows) <- (seen ++ port.kept).groupBy(_.key))
        assert(rows.map(_.number) == rows.map(_.number).sorted, s"key $key is out of order")
      assert(port.kept.size * 32 <= maxBytes)
      assert(port.report.input.rows == 400 && port.report.deferred.rows == port.kept.size)
      if (worker.skipped.isDefined) recalled += 1
      if (worker.sent.size > at + 1 && port.kept.nonEmpty) lagging += 1
    }
    assert(
      recalled > Draws.of(40) && lagging > Draws.of(20),
      "too few cases recalled rows or had in-flight rows"
    )
  }

  test("the function processes all rows or none of groups that are not split") {
    var recalled, lagging, split = 0
    forSeeds(400) { random =>
      val share = Seq(0.0, 0.02, 0.2)(random.nextInt(3))
      val keys = 1 + random.nextInt(40)
      val rows = numbered(400, keys, random, lateShare = share).sorted
      val at = random.nextInt(500)
      val port = new Port(overtakenAt = at)
      val worker = new Worker(lag = random.nextInt(300), splitsGroups = false)
      val maxBytes = if (random.nextInt(3) == 0) 4096L else 1L << 20
      worker.feed(rows, port, maxBytes)
      val seen = worker.seen
      val dropped = rows.filter(row => Schema.isDropped(unsafe(row)))
      assert((seen ++ port.kept ++ dropped).sorted == rows)
      assert(seen.map(_.key).toSet.intersect(port.kept.map(_.key).toSet).isEmpty)
      assert(seen.headOption == rows.find(row => !Schema.isDropped(unsafe(row))))
      assert(!port.kept.exists(_.isLate), "a late row stayed in flight")
      assert(port.kept.size * 32 <= maxBytes)
      if (worker.skipped.isDefined) recalled += 1
      if (worker.sent.size > at + 1 && port.kept.nonEmpty) lagging += 1
      if (port.kept.nonEmpty && at < 400 && at > 0 && rows(at).key == rows(at - 1).key) split += 1
    }
    info(s"$recalled cases with rows recalled, $lagging with some lagging, $split within a group")
    assert(
      recalled > Draws.of(40) && lagging > Draws.of(20) && split > Draws.of(50),
      "too few cases recalled rows, had in-flight rows, or split a group"
    )
  }

  test("keys begin after the one that was cut, each comes once, with its earlier rows first") {
    forSeeds(200) { random =>
      val keys: Ordering[InternalRow] = Ordering.by(_.getLong(0))
      val byNumber: Ordering[InternalRow] = Ordering.by(row => (row.getLong(0), row.getLong(1)))
      // Some operators also require sorted rows of a key.
      val order = GroupedOrder(keys, if (random.nextBoolean()) keys else byNumber)
      val splitsGroups = random.nextBoolean()
      // The in-flight rows of an epoch that began after key `turn`, and later rows.
      val turn = random.nextInt(8)
      def inTurn(cases: Seq[Case]) = cases.sortBy(row => ((row.key - turn + 8) % 8, row.number))
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
      val keysInOrder = rows.map(_.key)
      val once = keysInOrder.zip(keysInOrder.drop(1)).count { case (a, b) => a != b } + 1
      assert(rows.isEmpty || once == keysInOrder.distinct.size, s"a key comes twice: $keysInOrder")
      for ((key, group) <- rows.groupBy(_.key))
        assert(group == group.sorted, s"key $key is out of order")
      for (cut <- earlier.headOption)
        assert((if (splitsGroups) keysInOrder.last else keysInOrder.head) == cut.key)
    }
  }

  test("no key starves while the task is cut within another one in each epoch") {
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
      // Within two epochs, except for the key with more rows than are processed.
      for ((epoch, row) <- passed if row.key != 3)
        assert(epoch - row.number / 100 <= 2, s"$row waited until epoch $epoch")
    }
  }

  test("two sorted inputs are merged, with equal rows of the first input first") {
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
   * @param lag
   *   number of rows by which the function lags
   * @param received
   *   number of rows after which it receives no more
   */
  final private class Worker(
      lag: Int,
      splitsGroups: Boolean = true,
      received: Long = Long.MaxValue
  ) extends WorkerShare {
    val sent = mutable.ArrayBuffer.empty[Case]
    private var decision: (Long, Long) = _
    private var first = -1L

    override def taken: Long = math.min(received, math.max(0L, sent.size - lag.toLong))
    override def skipped: Option[Long] = Some(first).filter(_ >= 0)
    override def decide(stop: Long, resume: Long): Unit = {
      assert(decision == null, "the decision is repeated")
      decision = (stop, resume)
      val skipped = math.max(stop, if (splitsGroups) taken else endOfGroup(taken))
      assert(splitsGroups || skipped == endOfGroup(skipped), "the decision is within a group")
      if (skipped < resume) first = skipped
    }

    /** The end of the group that the function processes. */
    private def endOfGroup(rows: Long): Long = {
      val (seen, others) = sent.splitAt(rows.toInt)
      rows + seen.lastOption.fold(0)(last => others.takeWhile(_.key == last.key).size)
    }

    /** Runs a channel and its worker to the end. The task has been overtaken by then. */
    def feed(rows: Seq[Case], port: Port, maxBytes: Long = 1 << 20): Unit = {
      val channel =
        new WorkerChannel(rows.iterator.map(unsafe), Schema, port, this, maxBytes, splitsGroups)
      channel.foreach(row => if (!Schema.isDropped(row)) sent += parse(row))
      channel.finish()
    }

    def seen: Seq[Case] =
      if (first < 0) sent.toSeq
      else sent.toSeq.take(first.toInt) ++ sent.toSeq.drop(decision._2.toInt)
  }
}
