package io.cleancut.format.cut

import io.cleancut.base.StoreId

/**
 * Requests of one kind to the store, as recorded in a cut.
 *
 * @param requests
 *   sent requests including retries
 * @param retries
 *   requests that repeat a failed request
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
 * The requests and writes of one side, the driver or all executors, for a query.
 *
 * @param requests
 *   by the name of their kind; a later release may have further kinds
 * @param bytesSent
 *   bytes in bodies of requests
 * @param bytesReceived
 *   bytes in bodies of responses
 * @param frames
 *   durable frames, whether they count or not
 * @param segmentBytes
 *   size of complete segments
 * @param sentMs
 *   total time of successful requests with a body
 * @param waitedMs
 *   total time of failed requests, and of the pauses before their retries
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
      def in(share: ShareCosts) = share.requests.getOrElse(kind, KindCosts.Zero)
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
 * The time of a store, as measured by the coordinator.
 *
 * @param executor
 *   Spark's executor ID, empty if it is not known
 * @param ms
 *   time from the message that a task has opened it until its frame was durable and accepted
 */
final case class StoreTime(store: StoreId, executor: String, host: String, ms: Long)

/**
 * The costs of an epoch. See `docs/FORMAT.md`, "Costs".
 *
 * @param executors
 *   sum of all executors
 * @param executorCount
 *   number of executors that have reported to this driver so far
 * @param slowest
 *   stores, the slowest first
 */
final case class EpochCosts(
    driver: ShareCosts,
    executors: ShareCosts,
    executorCount: Int,
    slowest: Seq[StoreTime]
) {

  /** The sum of both sides. */
  def all: ShareCosts = driver + executors
}
