package org.apache.spark.sql.execution.streaming.state.cleancut.flow

import java.util.{Collections, Map => JMap, Optional}

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.connector.read.streaming.{
  Offset => OffsetV2,
  ReadLimit,
  ReportsSourceMetrics,
  SupportsTriggerAvailableNow
}
import org.apache.spark.sql.execution.streaming.{Offset, Source}
import org.apache.spark.sql.types.StructType

import io.cleancut.flow._

/**
 * Reads a channel: each epoch that its sender has published, once and whole, in their order.
 *
 * A source of Spark's first kind, as that of files is. Spark plans the rows of a batch as it plans
 * any others, so that only the columns that a query uses are read; of a source of the second kind a
 * stream reads all of them.
 *
 * @param defaults
 *   how much is taken where Spark does not ask for all
 */
final class ChannelSource(
    location: String,
    log: ChannelLog,
    rows: ChannelRows,
    defaults: ChannelBounds
) extends Source
    with SupportsTriggerAvailableNow
    with ReportsSourceMetrics {
  import ChannelSource._

  // A query that ends where all is read ends with what is there when it first asks.
  private var endsThere = false
  private var end: Option[Long] = None

  override def schema: StructType = rows.wholeSchema

  override def getDefaultReadLimit: ReadLimit = Bounded(defaults)

  override def prepareForTriggerAvailableNow(): Unit = endsThere = true

  override def latestOffset(start: OffsetV2, limit: ReadLimit): OffsetV2 = synchronized {
    val seen = log.after(markOf(start))
    if (endsThere && end.isEmpty) end = Some(seen.lastOption.fold(NoEpoch)(_.epoch))
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
    if (from == to) rows.of(() => Nil)
    else {
      val known = to.flatMap(log.known(from, _))
      // Spark also asks for the last batch of an earlier run, does not read it, and it may be gone.
      rows.of(() =>
        known.getOrElse(to.toSeq.flatMap(mark => synchronized(log.between(from, mark))))
      )
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

  override def stop(): Unit = ()

  override def toString: String = s"Channel[$location]"
}

object ChannelSource {
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
