package io.cleancut.format

import io.cleancut.StoreId

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
final case class KindCosts(requests: Long, retries: Long, failures: Long)

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
 */
final case class ShareCosts(
    requests: Map[String, KindCosts],
    bytesSent: Long,
    bytesReceived: Long,
    frames: Long,
    frameBytes: Long,
    segments: Long,
    segmentBytes: Long
)

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
)
