package org.apache.spark.sql.execution.streaming.state.cleancut.capture

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.streaming.state.cleancut.capture.operators.ChannelCases

import io.cleancut.testkit.{Draws, Seeded}

/** Rows of a channel with a key and a number. Rows that are `isLate` must not stay in flight. */
class ChannelIteratorSuite extends AnyFunSuite with Seeded {
  import ChannelCases._

  test("rows pass unchanged while the task is not overtaken") {
    val port = new Port
    val rows = numbered(100, keys = 7, new Random(1))
    assert(decide(rows, port) == rows)
    assert(port.kept.isEmpty && port.report.deferred.rows == 0 && port.report.input.rows == 100)
  }

  test("rows that remain when the task is overtaken stay in flight, in their order") {
    for (at <- Seq(0, 1, 50, 98, 99)) {
      val port = new Port(overtakenAt = at)
      val rows = numbered(100, keys = 7, new Random(2))
      // The first row always passes.
      assert(decide(rows, port) == rows.take(at + 1))
      assert(port.kept == rows.drop(at + 1))
    }
  }

  test("beyond the limit the oldest rows are emitted, until the rest fits") {
    val rows = numbered(100, keys = 7, new Random(3))
    val rowBytes = unsafe(rows.head).getSizeInBytes.toLong
    for ((staying, at) <- Seq(0 -> 10, 1 -> 10, 32 -> 10, 89 -> 10, 90 -> 10, 99 -> 0, 20 -> 98)) {
      val port = new Port(overtakenAt = at)
      val passed = decide(rows, port, maxBytes = staying * rowBytes + rowBytes - 1)
      val kept = math.min(staying, rows.size - at - 1)
      assert(passed == rows.dropRight(kept) && port.kept == rows.takeRight(kept))
      assert(port.report.deferred.rows == kept && port.report.input.rows == rows.size)
      assert(port.beyondBound == rows.size - at - 1 - kept)
    }
  }

  test("a channel with more input than throughput stays at its limit, and its rows in order") {
    val rowBytes = unsafe(numbered(1, keys = 1, new Random(1)).head).getSizeInBytes.toLong
    var left = Seq.empty[Case]
    var passed = Seq.empty[Case]
    val all = numbered(1000, keys = 3, new Random(5))
    val kept = all.grouped(50).toSeq.map { batch =>
      // It processes ten of fifty rows before it is overtaken.
      val port = new Port(overtakenAt = 9)
      passed ++= decide(left ++ batch, port, maxBytes = 100 * rowBytes)
      left = port.kept
      left.size
    }
    assert(kept.take(3) == Seq(40, 80, 100) && kept.drop(3).forall(_ == 100))
    assert(passed ++ left == all)
  }

  test("rows that would be late are emitted, after those of their key") {
    var withLate = 0
    forSeeds(200) { random =>
      val rows = numbered(60, keys = 1 + random.nextInt(8), random, lateShare = 0.2)
      val port = new Port(overtakenAt = random.nextInt(60))
      val maxBytes = if (random.nextInt(3) == 0) 512L else 1L << 20
      val passed = decide(rows, port, maxBytes)
      assert(port.kept.map(row => unsafe(row).getSizeInBytes.toLong).sum <= maxBytes)
      assert((passed ++ port.kept).sorted == rows.sorted)
      assert(!port.kept.exists(_.isLate), "a late row stayed in flight")
      for ((key, rows) <- (passed ++ port.kept).groupBy(_.key))
        assert(rows.map(_.number) == rows.map(_.number).sorted, s"key $key is out of order")
      if (port.kept.nonEmpty && passed.drop(port.overtakenAt + 1).nonEmpty) withLate += 1
    }
    assert(withLate > Draws.of(20), "too few cases had late rows")
  }

  test("groups that are not split stay in flight completely or not at all") {
    var withLate, beyond = 0
    forSeeds(1000) { random =>
      val rows = numbered(60, keys = 1 + random.nextInt(12), random, lateShare = 0.05).sorted
      val port = new Port(overtakenAt = random.nextInt(60))
      val maxBytes = if (random.nextBoolean()) 512L else 1L << 20
      val passed = decide(rows, port, maxBytes, splitsGroups = false)
      assert((passed ++ port.kept).sorted == rows)
      assert(passed.map(_.key).toSet.intersect(port.kept.map(_.key).toSet).isEmpty)
      assert(port.kept.map(row => unsafe(row).getSizeInBytes.toLong).sum <= maxBytes)
      assert(!port.kept.exists(_.isLate), "a late row stayed in flight")
      for ((key, rows) <- passed.groupBy(_.key))
        assert(rows == rows.sorted, s"key $key is out of order")
      if (port.kept.nonEmpty && passed.exists(_.isLate)) withLate += 1
      if (port.kept.nonEmpty && port.beyondBound > 0) beyond += 1
    }
    info(s"$withLate cases with late rows, $beyond beyond the limit")
    assert(withLate > Draws.of(20) && beyond > 0, "too few cases had late rows")
  }

  test("a second attempt emits the same rows as the first, whatever the order of its input") {
    forSeeds(100) { random =>
      val rows = withDuplicates(numbered(60, keys = 5, random, lateShare = 0.1), random)
      val first = new Port(overtakenAt = random.nextInt(60))
      val passed = decide(rows, first)
      val second = new Port(overtakenAt = random.nextInt(60))
      val again = follow(random.shuffle(rows), second, first)
      assert(again.sorted == passed.sorted)
      assert(second.kept == first.kept && second.report == first.report)
    }
  }

  test("a second attempt emits the rows of each key in the order of the first") {
    var between = 0
    forSeeds(500) { random =>
      // Few distinct values, so that there are other rows between equal ones.
      val rows = numbered(60, keys = 1 + random.nextInt(4), random, lateShare = 0.1)
        .map(row => row.copy(number = row.number % (1 + random.nextInt(3))))
      val first = new Port(overtakenAt = random.nextInt(60))
      val maxBytes = if (random.nextInt(3) == 0) 512L else 1L << 20
      val passed = decide(rows, first, maxBytes)
      val second = new Port
      val again = follow(rows, second, first)
      assert(again.groupBy(_.key) == passed.groupBy(_.key))
      assert(second.kept == first.kept && second.report == first.report)
      if (first.kept.exists(passed.contains)) between += 1
    }
    assert(between > Draws.of(50), "hardly any run had equal rows on both sides of the cut")
  }

  test("a second attempt with different input is refused") {
    val rows = numbered(60, keys = 5, new Random(4))
    val first = new Port(overtakenAt = 30)
    decide(rows, first)
    val others = Seq(
      rows.tail,
      rows.init,
      rows :+ rows.head,
      rows.updated(10, rows(10).copy(number = 1000)),
      rows.updated(50, rows(50).copy(number = 1000))
    )
    for (other <- others)
      assertThrows[Differs](follow(other, new Port, first))
  }

  test("keys come once, with their rows by number, over epochs that are cut and retried") {
    var cut, retried = 0
    forSeeds(300) { random =>
      val splitsGroups = random.nextInt(3) > 0
      val last = mutable.Map.empty[Long, Long].withDefaultValue(0L)
      var inFlight = Seq.empty[Case]
      var emitted = Seq.empty[Case]
      val epochs = Seq.fill(6) {
        Seq.fill(random.nextInt(20)) {
          val key = random.nextInt(5).toLong
          // Numbers are not unique: equal rows are in different epochs.
          last(key) += random.nextInt(2)
          Case(key, last(key), isLate = false)
        }
      }
      epochs.foreach { news =>
        val source = inTurn(inFlight, news.sorted, splitsGroups)
        assert(
          source.map(_.key).zip(source.map(_.key).drop(1)).count { case (a, b) => a != b } ==
            math.max(source.map(_.key).distinct.size - 1, 0),
          "a key comes twice"
        )
        val port = new Port(overtakenAt = random.nextInt(30))
        val passed = decide(source, port, splitsGroups = splitsGroups)
        if (random.nextBoolean()) {
          val again = new Port
          assert(follow(source, again, port) == passed && again.kept == port.kept)
          retried += 1
        }
        if (port.kept.nonEmpty) cut += 1
        inFlight = port.kept
        emitted ++= passed
      }
      val all = emitted ++ inFlight
      for ((key, rows) <- epochs.flatten.groupBy(_.key))
        assert(all.filter(_.key == key) == rows, s"key $key is out of order")
      assert(all.size == epochs.flatten.size)
    }
    info(s"$cut epochs were cut, $retried retried")
    assert(cut > Draws.of(300) && retried > Draws.of(300))
  }

  private def inTurn(earlier: Seq[Case], news: Seq[Case], splitsGroups: Boolean): Seq[Case] = {
    def buffer(rows: Seq[Case]) = {
      val made = (new Port).newBuffer()
      rows.foreach(row => made.add(unsafe(row)))
      made
    }
    val keys: Ordering[InternalRow] = Ordering.by(_.getLong(0))
    val rows: Ordering[InternalRow] = Ordering.by(row => (row.getLong(0), row.getLong(1)))
    val order = GroupedOrder(keys, rows)
    AlternatingRows(buffer(earlier), news.iterator.map(unsafe), order, splitsGroups, buffer(Nil))
      .map(parse)
      .toVector
  }

  private def decide(
      rows: Seq[Case],
      port: Port,
      maxBytes: Long = 1 << 20,
      splitsGroups: Boolean = true
  ): Seq[Case] = {
    val source = rows.iterator.map(unsafe)
    new DecidingChannel(source, Schema, port, maxBytes, splitsGroups).map(parse).toVector
  }

  private def follow(rows: Seq[Case], port: Port, decided: Port): Seq[Case] = {
    val staying = port.newBuffer()
    decided.kept.foreach(row => staying.add(unsafe(row)))
    val channel =
      new FollowingChannel(rows.iterator.map(unsafe), Schema, port, decided.report, staying)
    channel.map(parse).toVector
  }
}
