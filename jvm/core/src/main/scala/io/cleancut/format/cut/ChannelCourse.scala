package io.cleancut.format.cut

import io.cleancut.base.StoreId

/**
 * The measurements of an attempt on a shuffle input that it has read to its end.
 *
 * @param rowsReplayed
 *   in-flight rows of earlier epochs
 * @param bytesInFlight
 *   size of the in-flight rows
 * @param rowsBeyondBound
 *   rows that were emitted after the task was overtaken, because the limit of in-flight rows was
 *   reached
 * @param captureNs
 *   time by the executor's clock from the notification that the attempt is overtaken until the
 *   in-flight rows were written; None without a notification
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
 * How a shuffle input reached the barrier of its epoch, in the attempt that decided on it.
 *
 * @param arrivedMs
 *   time at which it had been read to its end. This and the next value are by the driver's clock,
 *   since the first task of the epoch began to read a shuffle input
 * @param overtakenMs
 *   time of the request to overtake its task, if that was before its arrival
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

  /** Time from the request to the arrival, by the driver's clock; None if it was not overtaken. */
  def barrierToCaptureMs: Option[Long] = overtakenMs.map(arrivedMs - _)
}

object ChannelCourse {

  /** How long the first shuffle input to arrive waited for the last. */
  def alignmentMs(courses: Iterable[ChannelCourse]): Long =
    if (courses.isEmpty) 0L else courses.map(_.arrivedMs).max - courses.map(_.arrivedMs).min

  /** The longest alignment of all operators' inputs; None if there are none. */
  def longestAlignmentMs(courses: Map[StoreId, ChannelCourse]): Option[Long] =
    courses.groupBy(_._1.operator).values.map(channels => alignmentMs(channels.values)).maxOption
}
