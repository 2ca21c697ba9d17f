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
 * Reads a channel: each published epoch of its sender, once, completely and in order.
 *
 * It is a `Source`, like Spark's file source. Spark plans the rows of a batch like any others and
 * reads only the columns that a query uses. A `MicroBatchStream` would read all columns.
 *
 * @param defaults
 *   limits that apply unless Spark requests all available data
 * @param isFeedback
 *   whether the query also receives its own output
 * @param mustYield
 *   whether another channel has to be read first
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

  // With AvailableNow, the query ends with the epochs that exist at the first request.
  private var isAvailableNow = false
  private var end: Option[Long] = None

  // The epochs that were seen are read up to this mark, or about to be read.
  private var read: Option[Option[EpochMark]] = None

  override def schema: StructType = rows.wholeSchema

  override def getDefaultReadLimit: ReadLimit = Bounded(defaults)

  override def prepareForTriggerAvailableNow(): Unit = isAvailableNow = true

  /** The number of known unread bytes, without another request. */
  def waitingBytes: Long = synchronized(read.map(log.seenAfter).fold(0L)(_.map(_.bytes).sum))

  override def latestOffset(start: OffsetV2, limit: ReadLimit): OffsetV2 = synchronized {
    val last = markOf(start)
    // The query's own output is complete now, with any number; otherwise the query would end
    // without it.
    if (isAvailableNow && isFeedback) log.refresh()
    val seen = log.after(last)
    read = Some(last)
    val offset = if (mustYield()) start else admitted(start, limit, seen)
    // Even before the first epoch was read, the offset log and therefore each cut records the
    // channel.
    val known = if (offset == null) ReadUpTo(ChannelOffset(location, None)) else offset
    read = Some(markOf(known))
    known
  }

  private def admitted(start: OffsetV2, limit: ReadLimit, seen: Seq[SentEpoch]): OffsetV2 = {
    if (isAvailableNow && !isFeedback && end.isEmpty)
      end = Some(seen.lastOption.fold(NoEpoch)(_.epoch))
    val bounds = limit match {
      case Bounded(limits) => limits
      case _               => ChannelBounds.None
    }
    val selected = bounds.admitted(seen.takeWhile(epoch => end.forall(epoch.epoch <= _)))
    selected.lastOption.fold(start)(epoch => ReadUpTo(ChannelOffset(location, Some(epoch.mark))))
  }

  override def getOffset: Option[Offset] =
    throw new UnsupportedOperationException("latestOffset is used instead")

  override def getBatch(start: Option[Offset], end: Offset): DataFrame = synchronized {
    val from = start.flatMap(offset => markOf(offset))
    val to = markOf(end)
    if (from == to) rows.none
    else {
      val known = to.flatMap(log.known(from, _))
      // Spark also requests the last batch of an earlier run, whose epochs may be deleted, but does
      // not read it.
      def find() = known.getOrElse(to.toSeq.flatMap(mark => synchronized(log.between(from, mark))))
      rows.of(() => find(), isStreaming = true)
    }
  }

  override def metrics(consumed: Optional[OffsetV2]): JMap[String, String] = synchronized {
    if (!consumed.isPresent) Collections.emptyMap()
    else {
      val waiting = log.seenAfter(markOf(consumed.get))
      def sum(value: SentEpoch => Long) = waiting.iterator.map(value).sum.toString
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

  /** The running sources of this driver, by query and channel. */
  private val running = new ConcurrentHashMap[(String, String), ChannelSource]

  def register(query: String, location: String, source: ChannelSource): Unit = {
    running.put((query, location), source)
    ()
  }

  /** The number of unread bytes of a channel that a query reads. */
  def waitingBytes(query: String, location: String): Long =
    Option(running.get((query, location))).fold(0L)(_.waitingBytes)

  private def forget(source: ChannelSource): Unit = {
    running.values.removeIf(_ eq source)
    ()
  }

  private val NoEpoch = -1L

  final private case class Bounded(bounds: ChannelBounds) extends ReadLimit

  /** Spark compares offsets by their text. */
  final private case class ReadUpTo(offset: ChannelOffset) extends Offset {
    override def json: String = offset.json
  }

  private def markOf(offset: OffsetV2): Option[EpochMark] = offset match {
    case null         => None
    case ReadUpTo(of) => of.last
    case other        => ChannelOffset.parse(other.json).last
  }
}
