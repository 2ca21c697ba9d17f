package io.cleancut.dataflow

import java.util.concurrent.TimeUnit.MILLISECONDS

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.error.CleancutException
import io.cleancut.testkit.{ManualClock, Seeded}

class ChannelLogSuite extends AnyFunSuite with Seeded {
  private val clock = new ManualClock
  private val pollMs = 10L
  private val listMs = 1000L

  private def log(of: ChannelRecords) = new ChannelLog(of, clock, pollMs, listMs)

  private def refused(id: String)(body: => Any): CleancutException = {
    val error = intercept[CleancutException](body)
    assert(error.errorId == id)
    error
  }

  /** What a reader sees some time later. */
  private def later(of: ChannelLog, last: Option[EpochMark], ms: Long = 10L): Vector[SentEpoch] = {
    clock.advance(ms, MILLISECONDS)
    of.after(last)
  }

  test("epochs come in their order, and a look costs one request") {
    val channel = new DrawnChannel
    val reader = log(channel)
    val sent = Vector.fill(3)(channel.publish())
    assert(reader.after(None) == sent)
    val last = sent.lastOption.map(_.mark)
    channel.reads = 0
    channel.listings = 0
    assert(later(reader, last).isEmpty)
    assert((channel.reads, channel.listings) == ((1, 0)))
    val next = channel.publish()
    // No sooner than it was told to ask.
    assert(reader.after(last).isEmpty)
    assert(later(reader, last) == Vector(next))
    assert((channel.reads, channel.listings) == ((3, 0)))
  }

  test("numbers that an act has used up are passed over") {
    val channel = new DrawnChannel
    val reader = log(channel)
    val first = channel.publish()
    assert(reader.after(None) == Vector(first))
    val beyond = channel.publish(epoch = 7)
    assert(later(reader, Some(first.mark)).isEmpty)
    assert(later(reader, Some(first.mark), listMs) == Vector(beyond))
  }

  test("a sender that went back behind what was seen, and not behind what was read") {
    val channel = new DrawnChannel
    val reader = log(channel)
    val sent = Vector.fill(4)(channel.publish())
    assert(reader.after(None) == sent)
    channel.goBack(2)
    val anew = channel.publish(epoch = 9)
    val last = Some(sent(1).mark)
    assert(later(reader, last, listMs) == Vector(anew))
  }

  test("a sender that went back behind what was read") {
    val channel = new DrawnChannel
    val reader = log(channel)
    val sent = Vector.fill(4)(channel.publish())
    val last = sent.lastOption.map(_.mark)
    assert(reader.after(last).isEmpty)
    channel.goBack(2)
    assert(later(reader, last, listMs).isEmpty)
    channel.publish(epoch = 9)
    val error = refused("CLEANCUT_CHANNEL_ROLLED_BACK")(later(reader, last, listMs))
    assert(error.getMessage.contains("follows epoch 1, and this reader has already read"))
    // Also where it has the same number.
    channel.goBack(2)
    channel.publish(epoch = 2)
    channel.publish(epoch = 3)
    channel.publish(epoch = 4)
    refused("CLEANCUT_CHANNEL_ROLLED_BACK")(later(reader, last, listMs))
  }

  test("an epoch that a run from before a rollback has published late is passed over") {
    val channel = new DrawnChannel
    val sent = Vector.fill(4)(channel.publish())
    channel.rollBack(2)
    val last = Some(sent(1).mark)
    val reader = log(channel)
    assert(reader.after(last).isEmpty)
    channel.publishLate(sent(3))
    // It is the last one until the sender publishes the next, and no epoch has expired.
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

  test("a late epoch that follows the last one is passed over by a reader that lists") {
    val channel = new DrawnChannel
    val sent = Vector.fill(4)(channel.publish())
    channel.rollBack(2)
    channel.publishLate(sent(2))
    val last = Some(sent(1).mark)
    assert(log(channel).after(last).isEmpty)
    assert(log(channel).after(None) == sent.take(2))
    val next = channel.publish(epoch = 6)
    assert(log(channel).after(None) == sent.take(2) :+ next)
    // A batch that was planned before the rollback is not read, whatever is there again.
    refused("CLEANCUT_CHANNEL_ROLLED_BACK")(log(channel).between(last, sent(2).mark))
  }

  test("a late epoch that was shown again by hand is read") {
    val channel = new DrawnChannel
    val sent = Vector.fill(3)(channel.publish())
    channel.rollBack(2)
    channel.publishLate(sent(2))
    val mark = sent(2).mark
    channel.put(f"_given_back/${mark.epoch}%020d-${mark.attempt}.json", "{}")
    assert(log(channel).after(Some(sent(1).mark)) == sent.drop(2))
  }

  test("epochs that were let go are nothing to begin with, and are missed by who needs them") {
    val channel = new DrawnChannel
    val sent = Vector.fill(6)(channel.publish())
    channel.expire(2, isCollected = false)
    assert(log(channel).after(None) == sent.drop(3))
    assert(log(channel).after(Some(sent.head.mark)) == sent.tail)
    channel.expire(3, isCollected = true)
    refused("CLEANCUT_CHANNEL_EXPIRED")(log(channel).after(Some(sent.head.mark)))
    assert(log(channel).after(Some(sent(3).mark)) == sent.drop(4))
  }

  test("a batch of an earlier run is read again as it was") {
    val channel = new DrawnChannel
    val sent = Vector.fill(6)(channel.publish())
    val of = log(channel).between(Some(sent(1).mark), sent(3).mark)
    assert(of == Vector(sent(2), sent(3)))
    assert(log(channel).between(None, sent(1).mark) == sent.take(2))
    val reader = log(channel)
    assert(reader.after(Some(sent(1).mark)) == sent.drop(2))
    channel.listings = 0
    assert(reader.between(Some(sent(1).mark), sent(3).mark) == of && channel.listings == 0)
    channel.goBack(2)
    refused("CLEANCUT_CHANNEL_EXPIRED")(log(channel).between(Some(sent(1).mark), sent(3).mark))
    Seq(2L, 3L).foreach(epoch => channel.publish(epoch = epoch))
    refused("CLEANCUT_CHANNEL_ROLLED_BACK")(log(channel).between(Some(sent(1).mark), sent(3).mark))
  }

  test("what is no epoch of a channel is refused by name") {
    val channel = new DrawnChannel
    val sent = channel.publish()
    val name = ChannelLayout.manifest(0)
    val body = DrawnChannel.json(sent)
    def found(text: String) = {
      channel.put(name, text)
      intercept[CleancutException](log(channel).after(None))
    }
    assert(found("{").errorId == "CLEANCUT_CHANNEL_CORRUPTED")
    assert(found("[]").errorId == "CLEANCUT_CHANNEL_CORRUPTED")
    assert(found(body.replace("\"epoch\":0", "\"epoch\":1")).getMessage.contains("of epoch 1"))
    assert(
      found(body.replace("\"rows\":1", "\"rows\":\"1\"")).errorId == "CLEANCUT_CHANNEL_CORRUPTED"
    )
    assert(found(body.replace("\"after\"", "\"before\"")).errorId == "CLEANCUT_CHANNEL_INVALID")
    assert(found(body.replace("Version\":1", "Version\":3")).errorId == "CLEANCUT_FORMAT_UNKNOWN")
  }

  test("a reader notes itself once, and anew where its checkpoint has moved") {
    val channel = new DrawnChannel
    def noted(checkpoint: String) = {
      ChannelLog.register(channel, "q", "0", checkpoint)
      new String(channel.read("_readers/q-0.json").get)
    }
    assert(noted("file:/a").contains("\"checkpoint\":\"file:/a\""))
    assert(noted("file:/a") == noted("file:/a"))
    assert(noted("file:/b").contains("\"checkpoint\":\"file:/b\""))
  }

  test("bounds take whole epochs, at least one with rows, and end with rows") {
    def epochs(rows: Long*): Seq[SentEpoch] = {
      val channel = new DrawnChannel
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

  test("a reader has each epoch once and in order, or is told, whatever the sender does") {
    var told, undone, whole, late = 0
    forSeeds(400) { random =>
      val channel = new DrawnChannel
      // Operations that are recorded take numbers, which are never used again.
      val isRecorded = random.nextBoolean()
      var reader = log(channel)
      var read = Vector.empty[SentEpoch]
      var isTold = false
      def step(): Unit = {
        clock.advance(random.nextInt(2) * listMs + random.nextInt(20).toLong, MILLISECONDS)
        // A restart forgets what was seen.
        if (random.nextInt(4) == 0) reader = log(channel)
        try {
          val seen = reader.after(read.lastOption.map(_.mark))
          val taken = seen.take(random.nextInt(4))
          taken.lastOption.foreach { end =>
            if (random.nextBoolean()) reader = log(channel)
            val from = read.lastOption.map(_.mark)
            // Between the offsets that are logged and the batch, the sender may go back.
            if (channel.chain.endsWith(seen) || channel.chain.contains(end)) {
              assert(reader.between(from, end.mark) == taken)
              read = read ++ taken
            }
          }
        } catch {
          case e: CleancutException =>
            assert(e.errorId == "CLEANCUT_CHANNEL_ROLLED_BACK" && !channel.chain.startsWith(read))
            isTold = true
        }
      }
      val steps = 5 + random.nextInt(40)
      for (_ <- 0 until steps if !isTold) random.nextInt(10) match {
        case 0 if isRecorded =>
          channel.rollBack(random.nextInt(channel.chain.size + 1))
          val more = channel.takenBack.drop(1)
          // One that does not follow the last epoch that counts.
          if (more.nonEmpty && random.nextBoolean()) {
            channel.publishLate(more(random.nextInt(more.size)))
            late += 1
          }
        case 0                => channel.goBack(random.nextInt(channel.chain.size + 1))
        case 1 if !isRecorded =>
          channel.undo(random.nextInt(channel.chain.size + 1))
          undone += 1
        case 2 | 3 | 4 | 5 =>
          val skipped = if (random.nextInt(4) == 0) random.nextInt(3) else 0
          val next = if (isRecorded) channel.highest + 1 else channel.last.fold(0L)(_.epoch + 1)
          channel.publish(random.nextInt(3).toLong, next + skipped)
        case _ => step()
      }
      if (!isTold && channel.chain.startsWith(read)) {
        // One that has seen nothing: what was published anew under a number that was seen before is
        // told from it by the epoch after it.
        reader = log(channel)
        assert(read ++ reader.after(read.lastOption.map(_.mark)) == channel.chain)
        whole += 1
      } else if (!isTold) {
        // It learns it with the next epoch, whatever number that has.
        channel.publish(epoch = channel.highest + 1)
        clock.advance(listMs, MILLISECONDS)
        refused("CLEANCUT_CHANNEL_ROLLED_BACK")(reader.after(read.lastOption.map(_.mark)))
        told += 1
      } else told += 1
    }
    info(s"told: $told, read whole: $whole, undone: $undone, late: $late")
    assert(late > 0)
  }
}
