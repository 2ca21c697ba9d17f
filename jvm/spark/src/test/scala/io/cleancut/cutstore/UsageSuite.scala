package io.cleancut.cutstore

import java.util.concurrent.TimeUnit.MILLISECONDS

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.cutstore.usage.{Place, Sender, Usage, UsageBook, WriteCounts}
import io.cleancut.objectstore.{KindCounts, RequestCounts, RequestKind}

class UsageSuite extends AnyFunSuite {
  private val random = new Random(43)

  /** Numbers of all sizes, including 0 and the maximum. */
  private def number(): Long = random.nextInt(8) match {
    case 0 => 0L
    case 1 => Long.MaxValue
    case _ => random.nextLong() >>> (1 + random.nextInt(63))
  }

  /** A duration that is sent in milliseconds; the sender limits it to some years. */
  private def millis(number: Long): Long = MILLISECONDS.toNanos(number % (1L << 40))

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

  test("the usage of a process is read from its message as it was sent") {
    for (_ <- 0 until 200) {
      val sent = usage()
      assert(Usage.parse(sent.toBytes) == sent)
    }
    assert(Usage.parse(Usage.Zero.toBytes) == Usage.Zero)
  }

  test("a message of small numbers is small") {
    val small = usage(() => random.nextInt(100).toLong)
    assert(small.toBytes.length < 50, "it is sent with the report of each store")
  }

  test("a message with a wrong length is refused") {
    val bytes = usage().toBytes
    intercept[IllegalArgumentException](Usage.parse(bytes :+ 0.toByte))
    intercept[RuntimeException](Usage.parse(bytes.dropRight(1)))
  }

  test("reordered, duplicate and lost messages do not change the totals") {
    val book = new UsageBook
    val messages =
      for (executor <- Seq("1", "2"); count <- 1L to 9L)
        yield Sender(executor, "host", gets(count * 10) + segments(count))
    // The last message of each executor has arrived; earlier ones may be lost.
    val arrived = messages.filter(m => m.usage == messages.last.usage || random.nextBoolean())
    random.shuffle(arrived ++ arrived).foreach(book.recordSender)
    val shares = book.now(gets(5))
    assert(shares.executorCount == 2)
    assert(shares.executors == gets(180) + segments(18))
    assert(shares.driver == gets(5))
  }

  test("writes of tasks in the driver process count for the driver") {
    val book = new UsageBook
    book.recordSender(Sender(Place.Driver, "host", segments(3)))
    val shares = book.now(gets(5) + segments(1))
    assert(shares.driver == gets(5) + segments(4))
    assert(shares.executorCount == 0 && shares.executors == Usage.Zero)
  }

  test("a cut omits kinds without requests") {
    val share = (gets(3) + segments(1)).toShare
    assert(share.requests.keySet == Set("get") && share.requests("get").requests == 3)
    assert((share.frames, share.frameBytes, share.segmentBytes) == ((2, 200, 250)))
  }
}
