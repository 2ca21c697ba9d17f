package io.cleancut.format.cut

import io.cleancut.base.StoreId

/**
 * Requests of one kind to the store, as the cut tells of them.
 *
 * @param requests
 *   as sent, repetitions included
 * @param retries
 *   those of them that repeat a request which failed
 * @param failures
 *   calls that ended with an error
 */
final case class KindCosts(requests: Long, retries: Long, failures: Long) {
  def +(other: KindCosts): KindCosts =
    KindCosts(requests + other.requests, retries + other.retries, failures + other.failures)
}

object KindCosts {
  val Zero: KindCosts = KindCosts(0L, 0L, 0L)
}

/**
 * What one side, the driver or all executors, asked of the store for a query, and wrote there.
 *
 * @param requests
 *   by the name of their kind; a later release may have kinds that this one does not know
 * @param bytesSent
 *   in bodies of requests
 * @param bytesReceived
 *   in bodies of answers
 * @param frames
 *   that were made durable, whether they count or not
 * @param segmentBytes
 *   of whole objects, with what they hold beside frames
 * @param sentMs
 *   that requests took which sent a body, those that failed left out, all added up
 * @param waitedMs
 *   that requests took which failed, and that was waited until they were repeated, all added up
 */
final case class ShareCosts(
    requests: Map[String, KindCosts],
    bytesSent: Long,
    bytesReceived: Long,
    frames: Long,
    frameBytes: Long,
    segments: Long,
    segmentBytes: Long,
    sentMs: Long = 0L,
    waitedMs: Long = 0L
) {

  /** Requests of all kinds. */
  def total: KindCosts = requests.valuesIterator.foldLeft(KindCosts.Zero)(_ + _)

  def +(other: ShareCosts): ShareCosts = ShareCosts(
    (requests.keySet ++ other.requests.keySet).iterator.map { kind =>
      def in(of: ShareCosts) = of.requests.getOrElse(kind, KindCosts.Zero)
      kind -> (in(this) + in(other))
    }.toMap,
    bytesSent + other.bytesSent,
    bytesReceived + other.bytesReceived,
    frames + other.frames,
    frameBytes + other.frameBytes,
    segments + other.segments,
    segmentBytes + other.segmentBytes,
    sentMs + other.sentMs,
    waitedMs + other.waitedMs
  )
}

/**
 * How long a store took, as the coordinator saw it.
 *
 * @param executor
 *   Spark's id of it, empty where it is not known
 * @param ms
 *   from the message that a task has opened it until its frame was durable and accepted
 */
final case class StoreTime(store: StoreId, executor: String, host: String, ms: Long)

/**
 * What an epoch cost. See `docs/FORMAT.md`, "Costs".
 *
 * @param executors
 *   all of them together
 * @param executorCount
 *   how many of them have reported to this driver so far
 * @param slowest
 *   stores, the slowest first
 */
final case class EpochCosts(
    driver: ShareCosts,
    executors: ShareCosts,
    executorCount: Int,
    slowest: Seq[StoreTime]
) {

  /** What both sides did. */
  def all: ShareCosts = driver + executors
}
