package io.cleancut.format.cut

import io.cleancut.base.StoreId

/**
 * What an attempt measured of a channel that it has read to its end.
 *
 * @param rowsReplayed
 *   of earlier epochs
 * @param bytesInFlight
 *   of the rows that stay
 * @param rowsBeyondBound
 *   that were handed on, though the task was overtaken, because more would have stayed than may
 * @param captureNs
 *   by the executor's clock, from when it heard that the attempt is overtaken until the rows that
 *   stay were written; None if it has not heard so
 */
final case class ChannelReading(
    rowsReplayed: Long,
    bytesInFlight: Long,
    rowsBeyondBound: Long,
    captureNs: Option[Long]
)

object ChannelReading {
  val Nothing: ChannelReading = ChannelReading(0L, 0L, 0L, None)
}

/**
 * How a channel came to the barrier of its epoch, in the attempt that decided on it.
 *
 * @param arrivedMs
 *   when it had been read to its end. This and the next by the driver's clock, from when the first
 *   task of the epoch began to read a channel.
 * @param overtakenMs
 *   when the order was given that its task be overtaken, if that was before it arrived
 * @param captureMs
 *   see [[ChannelReading]]
 */
final case class ChannelCourse(
    rowsReplayed: Long,
    bytesInFlight: Long,
    rowsBeyondBound: Long,
    arrivedMs: Long,
    overtakenMs: Option[Long],
    captureMs: Option[Long]
) {

  /** By the driver's clock, from the order to the arrival; None if it was not overtaken. */
  def barrierToCaptureMs: Option[Long] = overtakenMs.map(arrivedMs - _)
}

object ChannelCourse {

  /** How long the first to arrive waited for the last. */
  def alignmentMs(of: Iterable[ChannelCourse]): Long =
    if (of.isEmpty) 0L else of.map(_.arrivedMs).max - of.map(_.arrivedMs).min

  /** The longest of all operators' channels; None where there are none. */
  def longestAlignmentMs(of: Map[StoreId, ChannelCourse]): Option[Long] =
    of.groupBy(_._1.operator).values.map(channels => alignmentMs(channels.values)).maxOption
}
