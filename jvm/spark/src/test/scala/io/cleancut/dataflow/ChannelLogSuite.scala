package io.cleancut.dataflow

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.testkit.{ManualClock, Seeded}

class ChannelLogSuite extends AnyFunSuite with Seeded {
  private val clock = new ManualClock
  private val pollMs = 10L
  private val listMs = 1000L

  private def log(records: ChannelRecords) = new ChannelLog(records, clock, pollMs, listMs)

  private def refused(id: String)(body: => Any): CleancutException = {
    val error = intercept[CleancutException](body)
    assert(error.errorId == id)
    error
  }

  /** The epochs that a reader reads after some time. */
  private def later(
      reader: ChannelLog,
      last: Option[EpochMark],
      ms: Long = 10L
  ): Vector[SentEpoch] = {
    clock.advance(ms, MILLISECONDS)
    reader.after(last)
  }

  test("epochs are returned in order, and a poll costs one request") {
    val channel = new RandomChannel
    val reader = log(channel)
    val sent = Vector.fill(3)(channel.publish())
    assert(reader.after(None) == sent)
    val last = sent.lastOption.map(_.mark)
    channel.reads = 0
    channel.listings = 0
    assert(later(reader, last).isEmpty)
    assert((channel.reads, channel.listings) == ((1, 0)))
    val next = channel.publish()
    // Not before the poll interval.
    assert(reader.after(last).isEmpty)
    assert(later(reader, last) == Vector(next))
    assert((channel.reads, channel.listings) == ((3, 0)))
  }

  test("epoch numbers that an operation has skipped are skipped") {
    val channel = new RandomChannel
    val reader = log(channel)
    val first = channel.publish()
    assert(reader.after(None) == Vector(first))
    val beyond = channel.publish(epoch = 7)
    assert(later(reader, Some(first.mark)).isEmpty)
    assert(later(reader, Some(first.mark), listMs) == Vector(beyond))
  }

  test("a rollback of the sender to epochs after the last one read is not visible") {
    val channel = new RandomChannel
    val reader = log(channel)
    val sent = Vector.fill(4)(channel.publish())
    assert(reader.after(None) == sent)
    channel.rollBackInPlace(2)
    val repeated = channel.publish(epoch = 9)
    val last = Some(sent(1).mark)
    assert(later(reader, last, listMs) == Vector(repeated))
  }

  test("a rollback of the sender before the last epoch read is an error") {
    val channel = new RandomChannel
    val reader = log(channel)
    val sent = Vector.fill(4)(channel.publish())
    val last = sent.lastOption.map(_.mark)
    assert(reader.after(last).isEmpty)
    channel.rollBackInPlace(2)
    assert(later(reader, last, listMs).isEmpty)
    channel.publish(epoch = 9)
    val error = refused("CLEANCUT_CHANNEL_ROLLED_BACK")(later(reader, last, listMs))
    assert(error.getMessage.contains("follows epoch 1, and this reader has already read"))
    // Also if the epochs have the same numbers.
    channel.rollBackInPlace(2)
    channel.publish(epoch = 2)
    channel.publish(epoch = 3)
    channel.publish(epoch = 4)
    refused("CLEANCUT_CHANNEL_ROLLED_BACK")(later(reader, last, listMs))
  }

  test("an epoch that a run from before a rollback publishes late is skipped") {
    val channel = new RandomChannel
    val sent = Vector.fill(4)(channel.publish())
    channel.rollBack(2)
    val last = Some(sent(1).mark)
    val reader = log(channel)
    assert(reader.after(last).isEmpty)
    channel.publishLate(sent(3))
    // The late epoch is the last one until the sender publishes the next one, and none has expired.
    assert(later(reader, last, listMs).isEmpty)
    assert(log(channel).after(last).isEmpty)
    assert(log(channel).after(None) == sent.take(2))
    val next = Vector(channel.publish(epoch = 6), channel.publish(epoch = 7))
    assert(later(reader, last, listMs) == next)
    assert(log(channel).after(last) == next)
    assert(log(channel).after(None) == sent.take(2) ++ next)
    assert(log(channel).between(last, next.last.mark) == next)
    val more = channel.publish(epoch = 8)
    assert(later(reader, last) == next :+ more)
  }

  test("a reader that lists skips a late epoch that follows the last one") {
    val channel = new RandomChannel
    val sent = Vector.fill(4)(channel.publish())
    channel.rollBack(2)
    channel.publishLate(sent(2))
    val last = Some(sent(1).mark)
    assert(log(channel).after(last).isEmpty)
    assert(log(channel).after(None) == sent.take(2))
    val next = channel.publish(epoch = 6)
    assert(log(channel).after(None) == sent.take(2) :+ next)
    // A batch that was planned before the rollback is refused, whatever epochs exist.
    refused("CLEANCUT_CHANNEL_ROLLED_BACK")(log(channel).between(last, sent(2).mark))
  }

  test("a late epoch that was manually unhidden is read") {
    val channel = new RandomChannel
    val sent = Vector.fill(3)(channel.publish())
    channel.rollBack(2)
    channel.publishLate(sent(2))
    val mark = sent(2).mark
    channel.put(f"_given_back/${mark.epoch}%020d-${mark.attempt}.json", "{}")
    assert(log(channel).after(Some(sent(1).mark)) == sent.drop(2))
  }

  test("a new reader starts after expired epochs, and a reader that needs them fails") {
    val channel = new RandomChannel
    val sent = Vector.fill(6)(channel.publish())
    channel.expire(2, isCollected = false)
    assert(log(channel).after(None) == sent.drop(3))
    assert(log(channel).after(Some(sent.head.mark)) == sent.tail)
    channel.expire(3, isCollected = true)
    refused("CLEANCUT_CHANNEL_EXPIRED")(log(channel).after(Some(sent.head.mark)))
    assert(log(channel).after(Some(sent(3).mark)) == sent.drop(4))
  }

  test("a batch of an earlier run is read again unchanged") {
    val channel = new RandomChannel
    val sent = Vector.fill(6)(channel.publish())
    val batch = log(channel).between(Some(sent(1).mark), sent(3).mark)
    assert(batch == Vector(sent(2), sent(3)))
    assert(log(channel).between(None, sent(1).mark) == sent.take(2))
    val reader = log(channel)
    assert(reader.after(Some(sent(1).mark)) == sent.drop(2))
    channel.listings = 0
    assert(reader.between(Some(sent(1).mark), sent(3).mark) == batch && channel.listings == 0)
    channel.rollBackInPlace(2)
    refused("CLEANCUT_CHANNEL_EXPIRED")(log(channel).between(Some(sent(1).mark), sent(3).mark))
    Seq(2L, 3L).foreach(epoch => channel.publish(epoch = epoch))
    refused("CLEANCUT_CHANNEL_ROLLED_BACK")(log(channel).between(Some(sent(1).mark), sent(3).mark))
  }

  test("an object that is no epoch of a channel is refused by name") {
    val channel = new RandomChannel
    val sent = channel.publish()
    val name = ChannelLayout.manifest(0)
    val body = RandomChannel.json(sent)
    def errorOf(text: String) = {
      channel.put(name, text)
      intercept[CleancutException](log(channel).after(None))
    }
    assert(errorOf("{").errorId == "CLEANCUT_CHANNEL_CORRUPTED")
    assert(errorOf("[]").errorId == "CLEANCUT_CHANNEL_CORRUPTED")
    assert(errorOf(body.replace("\"epoch\":0", "\"epoch\":1")).getMessage.contains("of epoch 1"))
    assert(
      errorOf(body.replace("\"rows\":1", "\"rows\":\"1\"")).errorId == "CLEANCUT_CHANNEL_CORRUPTED"
    )
    assert(errorOf(body.replace("\"after\"", "\"before\"")).errorId == "CLEANCUT_CHANNEL_INVALID")
    assert(errorOf(body.replace("Version\":1", "Version\":3")).errorId == "CLEANCUT_FORMAT_UNKNOWN")
  }

  test("a reader registers once, and again after its checkpoint has moved") {
    val channel = new RandomChannel
    def registered(checkpoint: String) = {
      ChannelLog.register(channel, "q", "0", checkpoint)
      new String(channel.read("_readers/q-0.json").get)
    }
    assert(registered("file:/a").contains("\"checkpoint\":\"file:/a\""))
    assert(registered("file:/a") == registered("file:/a"))
    assert(registered("file:/b").contains("\"checkpoint\":\"file:/b\""))
  }

  test("limits admit complete epochs, at least one with rows, and end with rows") {
    def epochs(rows: Long*): Seq[SentEpoch] = {
      val channel = new RandomChannel
      rows.map(channel.publish(_))
    }
    def admitted(bounds: ChannelBounds, rows: Long*) = bounds.admitted(epochs(rows: _*)).map(_.rows)
    assert(admitted(ChannelBounds.None, 1, 0, 2, 0, 0) == Seq(1, 0, 2))
    assert(admitted(ChannelBounds.None, 0, 0).isEmpty)
    val two = ChannelBounds(Some(2L), None, None)
    assert(admitted(two, 0, 0, 0, 4, 0, 5, 6) == Seq(0, 0, 0, 4, 0, 5))
    assert(admitted(ChannelBounds(None, Some(9L), None), 20, 1) == Seq(20))
    assert(admitted(ChannelBounds(None, Some(9L), None), 4, 5, 1) == Seq(4, 5))
    assert(admitted(ChannelBounds(None, None, Some(5L)), 4, 0, 2, 1) == Seq(4))
  }

  test("a reader reads each epoch once and in order, or fails, whatever the sender does") {
    var failed, undone, complete, late = 0
    forSeeds(400) { random =>
      val channel = new RandomChannel
      // Recorded operations take epoch numbers, which are never reused.
      val isRecorded = random.nextBoolean()
      var reader = log(channel)
      var read = Vector.empty[SentEpoch]
      var hasFailed = false
      def step(): Unit = {
        clock.advance(random.nextInt(2) * listMs + random.nextInt(20).toLong, MILLISECONDS)
        // A restart loses the state of the reader.
        if (random.nextInt(4) == 0) reader = log(channel)
        try {
          val seen = reader.after(read.lastOption.map(_.mark))
          val taken = seen.take(random.nextInt(4))
          taken.lastOption.foreach { end =>
            if (random.nextBoolean()) reader = log(channel)
            val from = read.lastOption.map(_.mark)
            // The sender may roll back between the logged offsets and the batch.
            if (channel.chain.endsWith(seen) || channel.chain.contains(end)) {
              assert(reader.between(from, end.mark) == taken)
              read = read ++ taken
            }
          }
        } catch {
          case e: CleancutException =>
            assert(e.errorId == "CLEANCUT_CHANNEL_ROLLED_BACK" && !channel.chain.startsWith(read))
            hasFailed = true
        }
      }
      val steps = 5 + random.nextInt(40)
      for (_ <- 0 until steps if !hasFailed) random.nextInt(10) match {
        case 0 if isRecorded =>
          channel.rollBack(random.nextInt(channel.chain.size + 1))
          val more = channel.hidden.drop(1)
          // A late epoch that does not follow the last valid one.
          if (more.nonEmpty && random.nextBoolean()) {
            channel.publishLate(more(random.nextInt(more.size)))
            late += 1
          }
        case 0                => channel.rollBackInPlace(random.nextInt(channel.chain.size + 1))
        case 1 if !isRecorded =>
          channel.undo(random.nextInt(channel.chain.size + 1))
          undone += 1
        case 2 | 3 | 4 | 5 =>
          val skipped = if (random.nextInt(4) == 0) random.nextInt(3) else 0
          val next = if (isRecorded) channel.highest + 1 else channel.last.fold(0L)(_.epoch + 1)
          channel.publish(random.nextInt(3).toLong, next + skipped)
        case _ => step()
      }
      if (!hasFailed && channel.chain.startsWith(read)) {
        // A new reader, because a repeated epoch with a known number is only recognized by its
        // successor.
        reader = log(channel)
        assert(read ++ reader.after(read.lastOption.map(_.mark)) == channel.chain)
        complete += 1
      } else if (!hasFailed) {
        // The reader detects it with the next epoch, whatever its number.
        channel.publish(epoch = channel.highest + 1)
        clock.advance(listMs, MILLISECONDS)
        refused("CLEANCUT_CHANNEL_ROLLED_BACK")(reader.after(read.lastOption.map(_.mark)))
        failed += 1
      } else failed += 1
    }
    info(s"failed: $failed, read complete: $complete, undone: $undone, late: $late")
    assert(late > 0)
  }
}
