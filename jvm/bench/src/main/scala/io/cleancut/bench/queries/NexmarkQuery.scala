package io.cleancut.bench.queries

import org.apache.spark.sql.{Column, DataFrame, Dataset, Encoders, SparkSession}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.streaming.OutputMode

/**
 * A Nexmark query in Structured Streaming. All run in append mode, so that each result is emitted
 * once, when its window is closed, and a batch returns the same rows.
 *
 *   - Query 4 averages by the start time of auctions, because Spark evicts by one time column only.
 *   - Queries 5 and 7 return the lowest of the auctions or bids that share the first place.
 *   - Query 12 counts in processing-time windows, which Spark does not support.
 *
 * @param rowsPerEpoch
 *   events per epoch
 * @param fill
 *   epochs before the measurement, in which the state grows to its size
 */
final case class NexmarkQuery(
    number: Int,
    events: NexmarkEvents,
    rowsPerEpoch: Int,
    fill: Int
) extends WholeQuery {
  import NexmarkQuery._

  override def name: String = s"Nexmark $number"
  override def mode: OutputMode = OutputMode.Append()
  override def onHdfs: Boolean = true
  override def confs: Map[String, String] = Map.empty

  override def output(session: SparkSession): DataFrame = of(
    session.readStream
      .format("rate-micro-batch")
      .option("rowsPerBatch", rowsPerEpoch)
      .option("numPartitions", 2)
      .load()
      .select("value")
      .as(Encoders.scalaLong)
  )

  /** The answer for the events with these numbers, as a stream or as a batch. */
  def of(numbers: Dataset[Long]): DataFrame = {
    val generator = events
    val all = numbers
      .map(generator.event _)(Encoders.product[NexmarkEvent])
      .toDF()
      .withWatermark("at", Delay)
    val sides = new Sides(all)
    number match {
      case 4  => averages(winners(sides))
      case 5  => hottest(sides.bids)
      case 7  => highest(sides.bids)
      case 8  => newSellers(sides)
      case 9  => winners(sides)
      case 11 => sessions(sides.bids)
    }
  }

  /** The highest bid of each auction; the first of equal bids. */
  private def winners(sides: Sides): DataFrame = {
    val auctions = sides.auctions.select(
      col("auction"),
      col("person").as("seller"),
      col("category"),
      col("at").as("begins"),
      col("expires"),
      col("price").as("reserve")
    )
    val bids = sides.bids.select(
      col("auction").as("of"),
      col("person").as("bidder"),
      col("at").as("bidAt"),
      col("id").as("bid"),
      col("price")
    )
    auctions
      .join(
        bids,
        expr(
          "auction = of and price >= reserve and bidAt >= begins and bidAt <= expires and " +
            s"bidAt <= begins + interval ${events.longestAuctionMs} milliseconds"
        )
      )
      .groupBy("auction", "seller", "category", "begins", "expires")
      .agg(max(struct(col("price"), -col("bid"), col("bidder"))).as("best"))
      .select(
        col("auction"),
        col("seller"),
        col("category"),
        col("begins"),
        col("expires"),
        col("best.price").as("price"),
        col("best.bidder").as("bidder")
      )
  }
}

object NexmarkQuery {
  val Numbers: Seq[Int] = Seq(4, 5, 7, 8, 9, 11)

  private val Delay = "2 seconds"
  private val Window = "10 seconds"
  private val Slide = "2 seconds"

  def named(name: String, events: NexmarkEvents, rowsPerEpoch: Int, fill: Int): NexmarkQuery =
    Numbers
      .map(NexmarkQuery(_, events, rowsPerEpoch, fill))
      .find(_.name == name)
      .getOrElse(throw new IllegalArgumentException(s"no query '$name' among $Numbers"))

  final private class Sides(all: DataFrame) {
    private def of(kind: Int) = all.filter(col("kind") === kind)
    def people: DataFrame = of(NexmarkEvents.Person)
    def auctions: DataFrame = of(NexmarkEvents.Auction)
    def bids: DataFrame = of(NexmarkEvents.Bid)
  }

  private def tumbling(at: Column): Column = window(at, Window)

  /** Mean price of auctions by category. */
  private def averages(winners: DataFrame): DataFrame = winners
    .groupBy(tumbling(col("begins")), col("category"))
    .agg(avg("price"), count("*"))

  /** The auction with the most bids. */
  private def hottest(bids: DataFrame): DataFrame = bids
    .groupBy(window(col("at"), Window, Slide), col("auction"))
    .agg(count("*").as("bids"))
    .groupBy("window")
    .agg(max(struct(col("bids"), -col("auction"))))

  private def highest(bids: DataFrame): DataFrame = bids
    .groupBy(tumbling(col("at")))
    .agg(max(struct(col("price"), -col("id"), col("auction"), col("person"))))

  /** People who registered and began to sell in the same window. */
  private def newSellers(sides: Sides): DataFrame = {
    val people = sides.people.select(col("person"), col("name"), tumbling(col("at")).as("came"))
    val sellers = sides.auctions
      .groupBy(tumbling(col("at")).as("sold"), col("person").as("seller"))
      .agg(count("*").as("auctions"))
    people.join(sellers, expr("person = seller and came = sold"))
  }

  private def sessions(bids: DataFrame): DataFrame =
    bids.groupBy(session_window(col("at"), Window), col("person")).agg(count("*"))
}
