package io.cleancut.conf

import io.cleancut.channels.{Capture, CaptureMode}

/**
 * How the channels of a query are cut.
 *
 * @param maxEpochMs
 *   0 for no limit
 */
final case class ChannelSettings(mode: CaptureMode, maxEpochMs: Long, maxInFlightBytes: Long) {

  def capture: Capture =
    if (mode == CaptureMode.Aligned) Capture.Off
    else Capture(mode, Option.when(maxEpochMs > 0)(maxEpochMs * 1000000L))
}
