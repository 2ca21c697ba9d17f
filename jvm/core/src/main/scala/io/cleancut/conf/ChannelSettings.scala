package io.cleancut.conf

import java.util.concurrent.TimeUnit.MILLISECONDS

/**
 * How the channels of a query are cut.
 *
 * @param maxEpochMs
 *   0 for no limit
 * @param splitsGroups
 *   whether a function may get the rows that a key has in an epoch in two
 * @param requestTimeoutMs
 *   how long the coordinator may be at a request before it can answer
 * @param drainMs
 *   in an epoch without new input; see [[Capture]]
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
