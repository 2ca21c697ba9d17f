package io.cleancut.cutstore

import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.cutstore.usage.{Place, Sender, Usage, UsageBook, WriteCounts}
import io.cleancut.objectstore.{KindCounts, RequestCounts, RequestKind}

class UsageSuite extends AnyFunSuite {
  private val random = new Random(43)

  /** Numbers of every size, 0 and the greatest among them. */
  private def number(): Long = random.nextInt(8) match {
    case 0 => 0L
    case 1 => Long.MaxValue
    case _ => random.nextLong() >>> (1 + random.nextInt(63))
  }

  /** Times are sent in milliseconds, as nobody waits for longer than some years. */
  private def millis(of: Long): Long = MILLISECONDS.toNanos(of % (1L << 40))

  private def usage(number: () => Long = () => number()): Usage = {
    val kinds = RequestKind.values.map(_ -> KindCounts(number(), number(), number()))
    Usage(
      RequestCounts(kinds.toMap, number(), number(), millis(number()), millis(number())),
      WriteCounts(number(), number(), number(), number())
    )
  }

  private def gets(count: Long): Usage = {
    val kinds = RequestCounts.Zero.byKind.updated(RequestKind.Get, KindCounts(count, 0, 0))
    Usage.Zero.copy(requests = RequestCounts.Zero.copy(byKind = kinds))
  }

  private def segments(count: Long): Usage =
    Usage.Zero.copy(written = WriteCounts(2 * count, 200 * count, count, 250 * count))

  test("what a process has used is read from its message as it was sent") {
    for (_ <- 0 until 200) {
      val sent = usage()
      assert(Usage.parse(sent.toBytes) == sent)
    }
    assert(Usage.parse(Usage.Zero.toBytes) == Usage.Zero)
  }

  test("a message of small numbers is small") {
    val small = usage(() => random.nextInt(100).toLong)
    assert(small.toBytes.length < 50, "it rides with the report of every store")
  }

  test("a message that is longer or shorter than it should be is refused") {
    val bytes = usage().toBytes
    intercept[IllegalArgumentException](Usage.parse(bytes :+ 0.toByte))
    intercept[RuntimeException](Usage.parse(bytes.dropRight(1)))
  }

  test("messages that overtake each other, come twice or are lost change no sum") {
    val book = new UsageBook
    val messages =
      for (executor <- Seq("1", "2"); count <- 1L to 9L)
        yield Sender(executor, "host", gets(count * 10) + segments(count))
    // The last of each executor has arrived; any of those before it may have been lost.
    val arrived = messages.filter(m => m.usage == messages.last.usage || random.nextBoolean())
    random.shuffle(arrived ++ arrived).foreach(book.recordSender)
    val shares = book.now(gets(5))
    assert(shares.executorCount == 2)
    assert(shares.executors == gets(180) + segments(18))
    assert(shares.driver == gets(5))
  }

  test("what tasks in the driver's process write is the driver's") {
    val book = new UsageBook
    book.recordSender(Sender(Place.Driver, "host", segments(3)))
    val shares = book.now(gets(5) + segments(1))
    assert(shares.driver == gets(5) + segments(4))
    assert(shares.executorCount == 0 && shares.executors == Usage.Zero)
  }

  test("kinds that there were no requests of are left out of a cut") {
    val share = (gets(3) + segments(1)).toShare
    assert(share.requests.keySet == Set("get") && share.requests("get").requests == 3)
    assert((share.frames, share.frameBytes, share.segmentBytes) == ((2, 200, 250)))
  }
}
