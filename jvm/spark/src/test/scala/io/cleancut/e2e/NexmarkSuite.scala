package io.cleancut.e2e

import java.nio.file.Files

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.CleancutStateStoreProvider
import io.cleancut.bench.queries.{NexmarkAnswer, NexmarkEvents, NexmarkQuery}
import io.cleancut.testkit.LongTest

/** The Nexmark queries that Spark supports: a stream with a restart returns the rows of a batch. */
class NexmarkSuite extends AnyFunSuite with RocksDbComparison {
  import NexmarkSuite._

  for (number <- NexmarkQuery.Numbers)
    test(s"query $number returns the rows of a batch, through a restart", LongTest) {
      spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        classOf[CleancutStateStoreProvider].getName
      )
      val query = NexmarkQuery(number, Events, rowsPerEpoch = 1, fill = 1)
      val home = Files.createTempDirectory("cleancut-nexmark")
      val answer = new NexmarkAnswer(spark, query, Count, home)
      val expected = answer.ofBatch()
      assert(expected.nonEmpty)
      val rows = answer.ofStream("cleancut")
      withClue(
        s"missing ${expected.diff(rows).take(3)}, too many ${rows.diff(expected).take(3)}: "
      ) {
        assert(rows == expected)
      }
    }

  test("events have the proportions of Nexmark, and refer to existing or upcoming entities") {
    val all = (0L until 50000L).map(Events.event)
    val counts = all.groupBy(_.kind).map { case (kind, events) => kind -> events.size }
    assert(counts == Map(0 -> 1000, 1 -> 3000, 2 -> 46000))
    val (people, auctions) = (all.filter(_.kind == 0), all.filter(_.kind == 1))
    assert(people.map(_.person) == (1000L until 2000L))
    assert(auctions.map(_.auction) == (1000L until 4000L))
    val bids = all.filter(_.kind == 2)
    for (bid <- bids) {
      val newest = 1000 + bid.id / 50 * 3 + 2
      assert(bid.auction >= 1000 && bid.auction <= newest + 10)
      assert(bid.auction >= newest - Math.max(Events.inFlight, 100))
      assert(bid.person <= 1000 + bid.id / 50 + 11)
    }
    assert(auctions.forall(a => a.expires.getTime - a.at.getTime <= Events.longestAuctionMs))
    assert(auctions.map(_.category).toSet == (10L to 14L).toSet)
    assert(all == (0L until 50000L).map(Events.event))
  }
}

object NexmarkSuite {
  // A minute of events, so that windows close during the run.
  private val Count = 6000
  private val Events = NexmarkEvents(perSecond = 100, inFlight = 20, people = 100)
}
