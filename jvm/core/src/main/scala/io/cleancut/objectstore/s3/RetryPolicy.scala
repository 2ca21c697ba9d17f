package io.cleancut.objectstore.s3

import java.nio.ByteBuffer

import io.cleancut.base.Clock

/**
 * How long a request is retried, and the length of the pauses.
 *
 * There is a deadline instead of a number of attempts: in an outage, a count, or a token bucket
 * shared by all requests, is exhausted within a second and then fails all requests at once.
 *
 * @param deadlineMs
 *   time of one request with all its retries
 */
final case class RetryPolicy(deadlineMs: Long, firstPauseMs: Long = 50, maxPauseMs: Long = 5000) {
  require(firstPauseMs >= 2 && maxPauseMs >= firstPauseMs, s"pauses from $firstPauseMs ms")

  /**
   * The pause in milliseconds after the `attempt`th failure: between half and all of a step that
   * doubles, so that clients that failed together do not retry together.
   */
  def pauseMs(attempt: Int, clock: Clock): Long = {
    val doublings = Math.min(attempt - 1, RetryPolicy.MaxDoublings)
    val stepMs = Math.min(maxPauseMs, firstPauseMs << doublings)
    val chance = ByteBuffer.wrap(clock.randomBytes(4)).getInt & Int.MaxValue
    stepMs - chance % (stepMs / 2)
  }
}

object RetryPolicy {
  // 2^20 times the first pause is above any maximum, and does not overflow.
  private val MaxDoublings = 20
}
