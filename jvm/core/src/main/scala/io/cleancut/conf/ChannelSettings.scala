package io.cleancut.conf

import java.util.concurrent.TimeUnit.MILLISECONDS

/**
 * Settings of capture for the shuffle inputs of a query.
 *
 * @param maxEpochMs
 *   0 for no limit
 * @param splitsGroups
 *   whether a function may receive the rows of a key in one epoch in two parts
 * @param requestTimeoutMs
 *   longest time that a request of the coordinator may take before it answers
 * @param drainMs
 *   minimum time in an epoch without new input; see [[Capture]]
 */
final case class ChannelSettings(
    mode: CaptureMode,
    maxEpochMs: Long,
    maxInFlightBytes: Long,
    splitsGroups: Boolean,
    requestTimeoutMs: Long,
    drainMs: Option[Long] = None
) {

  def capture: Capture =
    if (mode == CaptureMode.Aligned) Capture.Off
    else {
      val limitNs = Option.when(maxEpochMs > 0)(MILLISECONDS.toNanos(maxEpochMs))
      Capture(mode, limitNs, drainMs.map(MILLISECONDS.toNanos(_)))
    }
}
