package org.apache.spark.sql.execution.streaming.state.cleancut.flow

import java.nio.charset.StandardCharsets.UTF_8

import scala.collection.mutable

import org.apache.spark.sql.Row

import io.cleancut.error.Errors

/**
 * Of the records that a task reads of one partition those that are wanted, in their order; fails at
 * the end unless they were all.
 *
 * @param records
 *   as Spark's connector gives them, with headers
 * @param wanted
 *   by partition; each has some
 */
final private[flow] class WantedRecords(
    records: Iterator[Row],
    wanted: Map[Int, Seq[ChannelTopic.Wanted]],
    location: String,
    topic: String
) extends Iterator[Row] {
  import WantedRecords._

  // Of the task's partition, which the first record tells.
  private var partition = Unknown
  private var byAttempt = Map.empty[String, ChannelTopic.Wanted]
  private val seen = mutable.Map.empty[String, Long].withDefaultValue(0L)
  private var ready: Option[Row] = None
  private var isOver = false

  override def hasNext: Boolean = {
    while (ready.isEmpty && !isOver)
      if (records.hasNext) ready = taken(records.next())
      else {
        isOver = true
        check()
      }
    ready.nonEmpty
  }

  override def next(): Row = {
    if (!hasNext) throw new NoSuchElementException("no record is left")
    val row = ready.get
    ready = None
    row
  }

  private def taken(record: Row): Option[Row] = {
    if (partition == Unknown) {
      partition = record.getInt(record.fieldIndex("partition"))
      byAttempt = wanted(partition).map(of => of.attempt -> of).toMap
    }
    val headers = headersOf(record)
    for {
      attempt <- headers.get(Attempt)
      of <- byAttempt.get(attempt)
    } yield {
      val sequence = seen(attempt)
      // Those before it are gone, or it is there twice.
      if (!headers.get(Sequence).contains(sequence.toString)) throw gone(of)
      seen(attempt) = sequence + 1
      val value = record.getAs[Array[Byte]](record.fieldIndex(ChannelTopic.Value))
      Row(value, Row(of.sender, of.epoch, partition, sequence))
    }
  }

  private def check(): Unit = {
    // A task without any record does not know its partition, and lacks whatever it was to read.
    val all = if (partition == Unknown) wanted.values.flatten else byAttempt.values
    all.find(of => seen(of.attempt) != of.rows).foreach(of => throw gone(of))
  }

  private def gone(of: ChannelTopic.Wanted) = Errors.flowRowsGone(
    location,
    of.epoch,
    if (partition == Unknown) topic else s"$topic-$partition",
    seen(of.attempt),
    of.rows
  )
}

private[flow] object WantedRecords {

  /** Headers that a sender gives each record; python/cleancut/_dataflow/topic_sender.py. */
  val Attempt = "cleancut-attempt"
  val Sequence = "cleancut-sequence"

  private val Unknown = -1

  private def headersOf(record: Row): Map[String, String] = {
    val at = record.fieldIndex("headers")
    if (record.isNullAt(at)) Map.empty
    else
      record
        .getSeq[Row](at)
        .filterNot(_.isNullAt(1))
        .map(of => of.getString(0) -> new String(of.getAs[Array[Byte]](1), UTF_8))
        .toMap
  }
}
