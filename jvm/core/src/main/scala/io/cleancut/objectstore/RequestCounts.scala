package io.cleancut.objectstore

import java.util.concurrent.atomic.LongAdder

/**
 * The requests of one kind.
 *
 * @param requests
 *   sent requests including retries, as a store bills them
 * @param retries
 *   requests that repeat a failed request
 * @param failures
 *   calls that ended with an error
 */
final case class KindCounts(requests: Long, retries: Long, failures: Long) {
  def -(other: KindCounts): KindCounts =
    KindCounts(requests - other.requests, retries - other.retries, failures - other.failures)

  def +(other: KindCounts): KindCounts =
    KindCounts(requests + other.requests, retries + other.retries, failures + other.failures)

  /** The later of two snapshots of one counter; counts only grow. */
  def max(other: KindCounts): KindCounts = KindCounts(
    Math.max(requests, other.requests),
    Math.max(retries, other.retries),
    Math.max(failures, other.failures)
  )
}

/**
 * The requests to a store since it was opened, and the bytes of bodies in both directions.
 *
 * @param sentNs
 *   total time of successful requests with a body
 * @param waitedNs
 *   total time of failed requests, and of the pauses before their retries
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

  /** The difference to an earlier snapshot. */
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

  /** The later of two snapshots of one counter, compared number by number. */
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
 * Counters of a store that many threads use.
 *
 * @param whole
 *   counter that also counts these requests
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

  /** A successful request with a body took this time. */
  def tookToSend(ns: Long): Unit = {
    sentNs.add(ns)
    whole.foreach(_.tookToSend(ns))
  }

  /** Time of a failed request, or of the pause before a retry. */
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
