package io.cleancut.bench.queries

import java.sql.Timestamp
import java.util.SplittableRandom

/**
 * A person, an auction or a bid. `person` is the person, the seller or the bidder; `price` of an
 * auction is its reserve. Fields that do not apply are 0 or null.
 */
final case class NexmarkEvent(
    kind: Int,
    at: Timestamp,
    id: Long,
    person: Long,
    auction: Long,
    price: Long,
    category: Long,
    expires: Timestamp,
    name: String
)

/**
 * The events of Nexmark, with the proportions, IDs and distributions of Beam's generator: of fifty
 * events one is a person, three are auctions and the rest are bids, half of which are for the
 * newest hundredth auction; prices are uniformly distributed in their logarithms. An event is a
 * function of its number, so any task can create it, and all runs create the same events. Texts
 * that no query reads are left out.
 *
 * @param inFlight
 *   mean number of open auctions
 * @param people
 *   number of active people
 */
final case class NexmarkEvents(perSecond: Int, inFlight: Int, people: Int) {
  import NexmarkEvents._

  /** Longest duration of an auction. */
  val longestAuctionMs: Long = Math.max(inFlight.toLong * Period / Auctions * 2000 / perSecond, 1L)

  def event(number: Long): NexmarkEvent =
    if (number < 0) last(number)
    else {
      val random = new SplittableRandom(number * Scatter)
      val atMs = StartMs + number * 1000 / perSecond
      val offset = number % Period
      if (offset < People) person(number, atMs, random)
      else if (offset < People + Auctions) auction(number, atMs, random)
      else bid(number, atMs, random)
    }

  /**
   * One of [[Last]]: a person, an auction or a bid at the end of time, so that every other window
   * is closed. They are unrelated to each other.
   */
  private def last(number: Long): NexmarkEvent = {
    val kind = (-1 - number).toInt
    val at = new Timestamp(EndMs)
    NexmarkEvent(kind, at, number, number, number, 0, 0, at, null)
  }

  private def person(number: Long, atMs: Long, random: SplittableRandom): NexmarkEvent = {
    val name = s"${pick(FirstNames, random)} ${pick(LastNames, random)}"
    val id = lastPerson(number) + FirstId
    NexmarkEvent(Person, new Timestamp(atMs), number, id, 0, 0, 0, null, name)
  }

  private def auction(number: Long, atMs: Long, random: SplittableRandom): NexmarkEvent = {
    val last = lastPerson(number)
    val seller =
      if (random.nextInt(HotSellers) > 0) last / Batch * Batch else anyPerson(last, random)
    val category = FirstCategory + random.nextInt(Categories)
    val reserve = price(random) + price(random)
    val expires = new Timestamp(atMs + 1 + random.nextLong(longestAuctionMs))
    val id = lastAuction(number) + FirstId
    val at = new Timestamp(atMs)
    NexmarkEvent(Auction, at, number, seller + FirstId, id, reserve, category, expires, null)
  }

  private def bid(number: Long, atMs: Long, random: SplittableRandom): NexmarkEvent = {
    val newest = lastAuction(number)
    val auction =
      if (random.nextInt(HotAuctions) > 0) newest / Batch * Batch
      else {
        val first = Math.max(newest - inFlight, 0)
        first + random.nextLong(newest - first + 1 + Lead)
      }
    val last = lastPerson(number)
    val bidder =
      if (random.nextInt(HotBidders) > 0) last / Batch * Batch + 1 else anyPerson(last, random)
    val at = new Timestamp(atMs)
    val (by, auctionId) = (bidder + FirstId, auction + FirstId)
    NexmarkEvent(Bid, at, number, by, auctionId, price(random), 0, null, null)
  }

  private def anyPerson(last: Long, random: SplittableRandom): Long = {
    val active = Math.min(last + 1, people.toLong)
    last + 1 - active + random.nextLong(active + Lead)
  }
}

object NexmarkEvents {
  val Person = 0
  val Auction = 1
  val Bid = 2

  /**
   * Numbers of the events that close all windows, one of each kind: Spark drops unused kinds early.
   */
  val Last: Seq[Long] = Seq(-1L, -2L, -3L)

  private val StartMs = 1700000000000L
  private val EndMs = StartMs + 1000L * 60 * 60 * 24 * 365

  // Of this many events, the first are people, the next are auctions.
  private[bench] val Period = 50
  private[bench] val People = 1
  private[bench] val Auctions = 3

  // One in this many is not hot.
  private val HotAuctions = 2
  private val HotSellers = 4
  private val HotBidders = 4
  // The first of this many is the hot one.
  private val Batch = 100
  // IDs may be referenced before they exist.
  private val Lead = 10

  private val FirstId = 1000L
  private val FirstCategory = 10L
  private val Categories = 5
  private val Scatter = 0x9e3779b97f4a7c15L

  private val FirstNames =
    Seq("Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Walter")
  private val LastNames =
    Seq("Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris")

  private def pick(from: Seq[String], random: SplittableRandom): String =
    from(random.nextInt(from.size))

  /** A price in cents. */
  private def price(random: SplittableRandom): Long =
    Math.round(Math.pow(10.0, random.nextDouble() * 6.0) * 100.0)

  private def lastPerson(number: Long): Long =
    number / Period * People + Math.min(number % Period, People - 1L)

  private def lastAuction(number: Long): Long = {
    val offset = number % Period - People
    // Before the first auction of its period, this is the last auction of the previous period.
    number / Period * Auctions + Math.min(offset, Auctions - 1L)
  }.max(0L)
}
