package org.apache.spark.sql.execution.streaming.state.cleancut.channel

import java.util.{Collections, Map => JMap, Optional}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.read.streaming.{
  Offset => OffsetV2,
  ReadLimit,
  ReportsSourceMetrics,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.types.StructType

import io.cleancut.dataflow.{ChannelBounds, ChannelLog, ChannelOffset, EpochMark, SentEpoch}

/**
 * Reads a channel: each epoch that its sender has published, once and whole, in their order.
 *
 * A source of Spark's first kind, as that of files is. Spark plans the rows of a batch as it plans
 * any others, so that only the columns that a query uses are read; of a source of the second kind a
 * stream reads all of them.
 *
 * @param defaults
 *   how much is taken where Spark does not ask for all
 * @param isFeedback
 *   whether what the query sends comes round to it again
 * @param mustYield
 *   whether other rows are to be taken first
 */
final class ChannelSource(
    location: String,
    log: ChannelLog,
    rows: ChannelRows,
    defaults: ChannelBounds,
    isFeedback: Boolean,
    mustYield: () => Boolean
) extends Source
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics {
  import ChannelSource._

  // A query that ends where all is read ends with what is there when it first asks.
  private var endsThere = false
  private var end: Option[Long] = None

  // Up to where what was seen is read, or about to be.
  private var read: Option[Option[EpochMark]] = None

  override def schema: StructType = rows.wholeSchema

  override def getDefaultReadLimit: ReadLimit = Bounded(defaults)

  override def prepareForTriggerAvailableNow(): Unit = endsThere = true

  /** How much was seen and not read, as far as is known without another look. */
  def waitingBytes: Long = synchronized(read.map(log.seenAfter).fold(0L)(_.map(_.bytes).sum))

  override def latestOffset(start: OffsetV2, limit: ReadLimit): OffsetV2 = synchronized {
    val last = markOf(start)
    // What comes round is there by now, under whatever number, or the query would end without it.
    if (endsThere && isFeedback) log.lookAgain()
    val seen = log.after(last)
    read = Some(last)
    val offset = if (mustYield()) start else admitted(start, limit, seen)
    // So that the offset log, and hence each cut, tells from the first epoch on what is read.
    val known = if (offset == null) ReadUpTo(ChannelOffset(location, None)) else offset
    read = Some(markOf(known))
    known
  }

  private def admitted(start: OffsetV2, limit: ReadLimit, seen: Seq[SentEpoch]): OffsetV2 = {
    if (endsThere && !isFeedback && end.isEmpty) end = Some(seen.lastOption.fold(NoEpoch)(_.epoch))
    val bounds = limit match {
      case Bounded(found) => found
      case _              => ChannelBounds.None
    }
    val taken = bounds.admitted(seen.takeWhile(of => end.forall(of.epoch <= _)))
    taken.lastOption.fold(start)(of => ReadUpTo(ChannelOffset(location, Some(of.mark))))
  }

  override def getOffset: Option[Offset] =
    throw new UnsupportedOperationException("latestOffset is asked in its place")

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = synchronized {
    val from = start.flatMap(of => markOf(of))
    val to = markOf(end)
    if (from == to) rows.none
    else {
      val known = to.flatMap(log.known(from, _))
      // Spark also asks for the last batch of an earlier run, does not read it, and it may be gone.
      def find() = known.getOrElse(to.toSeq.flatMap(mark => synchronized(log.between(from, mark))))
      rows.of(() => find(), isStreaming = true)
    }
  }

  override def metrics(consumed: Optional[OffsetV2]): JMap[String, String] = synchronized {
    if (!consumed.isPresent) Collections.emptyMap()
    else {
      val waiting = log.seenAfter(markOf(consumed.get))
      def sum(of: SentEpoch => Long) = waiting.iterator.map(of).sum.toString
      JMap.of(
        "epochsBehind",
        waiting.size.toString,
        "rowsBehind",
        sum(_.rows),
        "bytesBehind",
        sum(_.bytes)
      )
    }
  }

  override def stop(): Unit = ChannelSource.forget(this)

  override def toString: String = s"Channel[$location]"
}

object ChannelSource {

  /** By query and channel, those that run in this driver. */
  private val running = new ConcurrentHashMap[(String, String), ChannelSource]

  def register(query: String, location: String, source: ChannelSource): Unit = {
    running.put((query, location), source)
    ()
  }

  /** How many bytes of a channel wait for a query that reads it. */
  def waitingBytes(query: String, location: String): Long =
    Option(running.get((query, location))).fold(0L)(_.waitingBytes)

  private def forget(source: ChannelSource): Unit = {
    running.values.removeIf(_ eq source)
    ()
  }

  private val NoEpoch = -1L

  final private case class Bounded(bounds: ChannelBounds) extends ReadLimit

  /** As Spark's offset, which is equal to another one by its text. */
  final private case class ReadUpTo(offset: ChannelOffset) extends Offset {
    override def json: String = offset.json
  }

  private def markOf(offset: OffsetV2): Option[EpochMark] = offset match {
    case null         => None
    case ReadUpTo(of) => of.last
    case other        => ChannelOffset.parse(other.json).last
  }
}
