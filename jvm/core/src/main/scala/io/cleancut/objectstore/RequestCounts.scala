package io.cleancut.objectstore

import java.util.concurrent.atomic.LongAdder

/**
 * The requests of one kind.
 *
 * @param requests
 *   as sent, repetitions included: what a store bills
 * @param retries
 *   those of them that repeat a request which failed
 * @param failures
 *   calls that ended with an error
 */
final case class KindCounts(requests: Long, retries: Long, failures: Long) {
  def -(other: KindCounts): KindCounts =
    KindCounts(requests - other.requests, retries - other.retries, failures - other.failures)

  def +(other: KindCounts): KindCounts =
    KindCounts(requests + other.requests, retries + other.retries, failures + other.failures)

  /** The later of two counts of one counter, which only ever grow. */
  def max(other: KindCounts): KindCounts = KindCounts(
    Math.max(requests, other.requests),
    Math.max(retries, other.retries),
    Math.max(failures, other.failures)
  )
}

/**
 * What a store has been asked for since it was opened, and the bytes of bodies both ways.
 *
 * @param sentNs
 *   that requests took which sent a body, those that failed left out; all added up
 * @param waitedNs
 *   that requests took which failed, and the pauses before they were repeated; all added up
 */
final case class RequestCounts(
    byKind: Map[RequestKind, KindCounts],
    bytesSent: Long,
    bytesReceived: Long,
    sentNs: Long = 0L,
    waitedNs: Long = 0L
) {
  def apply(kind: RequestKind): KindCounts = byKind(kind)

  def requests: Long = byKind.valuesIterator.map(_.requests).sum
  def retries: Long = byKind.valuesIterator.map(_.retries).sum
  def failures: Long = byKind.valuesIterator.map(_.failures).sum

  def billed(billing: RequestKind.Billing): Long =
    byKind.iterator.collect {
      case (kind, counts) if kind.billing == billing => counts.requests
    }.sum

  /** What came to it since an earlier count. */
  def -(earlier: RequestCounts): RequestCounts = RequestCounts(
    byKind.map { case (kind, counts) => kind -> (counts - earlier(kind)) },
    bytesSent - earlier.bytesSent,
    bytesReceived - earlier.bytesReceived,
    sentNs - earlier.sentNs,
    waitedNs - earlier.waitedNs
  )

  def +(other: RequestCounts): RequestCounts = RequestCounts(
    byKind.map { case (kind, counts) => kind -> (counts + other(kind)) },
    bytesSent + other.bytesSent,
    bytesReceived + other.bytesReceived,
    sentNs + other.sentNs,
    waitedNs + other.waitedNs
  )

  /** The later of two counts of one counter, whichever that is in which of its numbers. */
  def max(other: RequestCounts): RequestCounts = RequestCounts(
    byKind.map { case (kind, counts) => kind -> counts.max(other(kind)) },
    Math.max(bytesSent, other.bytesSent),
    Math.max(bytesReceived, other.bytesReceived),
    Math.max(sentNs, other.sentNs),
    Math.max(waitedNs, other.waitedNs)
  )
}

object RequestCounts {
  val Zero: RequestCounts =
    RequestCounts(RequestKind.values.map(_ -> KindCounts(0L, 0L, 0L)).toMap, 0L, 0L)
}

/**
 * Counts for a store that many threads use.
 *
 * @param whole
 *   counts all that this one does, and more
 */
final private[objectstore] class RequestCounter(whole: Option[RequestCounter] = None) {
  import RequestCounter.Adders

  private val adders = RequestKind.values.map(_ -> new Adders).toMap
  private val bytesSent = new LongAdder
  private val bytesReceived = new LongAdder
  private val sentNs = new LongAdder
  private val waitedNs = new LongAdder

  def sent(kind: RequestKind, isRetry: Boolean): Unit = {
    adders(kind).requests.increment()
    if (isRetry) adders(kind).retries.increment()
    whole.foreach(_.sent(kind, isRetry))
  }

  def failed(kind: RequestKind): Unit = {
    adders(kind).failures.increment()
    whole.foreach(_.failed(kind))
  }

  def sentBytes(count: Long): Unit = {
    bytesSent.add(count)
    whole.foreach(_.sentBytes(count))
  }

  def receivedBytes(count: Long): Unit = {
    bytesReceived.add(count)
    whole.foreach(_.receivedBytes(count))
  }

  /** A request that sends a body has taken so long, and has not failed. */
  def tookToSend(ns: Long): Unit = {
    sentNs.add(ns)
    whole.foreach(_.tookToSend(ns))
  }

  /** A request has failed after so long, or one that has failed is repeated so much later. */
  def waited(ns: Long): Unit = {
    waitedNs.add(ns)
    whole.foreach(_.waited(ns))
  }

  def now: RequestCounts = RequestCounts(
    adders.map { case (kind, adder) => kind -> adder.now },
    bytesSent.sum,
    bytesReceived.sum,
    sentNs.sum,
    waitedNs.sum
  )
}

private object RequestCounter {
  final private class Adders {
    val requests = new LongAdder
    val retries = new LongAdder
    val failures = new LongAdder
    def now: KindCounts = KindCounts(requests.sum, retries.sum, failures.sum)
  }
}
