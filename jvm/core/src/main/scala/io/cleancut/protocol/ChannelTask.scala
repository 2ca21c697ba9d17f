package io.cleancut.protocol

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.conf.Capture
import io.cleancut.format.FramePlace
import io.cleancut.format.cut.ChannelReport

/**
 * A task attempt that begins to read a shuffle input.
 *
 * @param partitions
 *   number of partitions of the operator
 * @param executor
 *   executor on which it runs
 * @param capture
 *   when it may be overtaken
 */
final case class ChannelTask(
    attempt: Long,
    channel: StoreId,
    epoch: Long,
    partitions: Int,
    executor: String,
    capture: Capture
)

/**
 * The in-flight rows of a shuffle input in one epoch: a durable frame, or a frame that the driver
 * holds.
 */
sealed trait ChannelRows

object ChannelRows {
  final case class Placed(version: StateVersion, place: FramePlace) extends ChannelRows
  final case class Held(version: StateVersion, bytes: Array[Byte]) extends ChannelRows
}

/**
 * How a task attempt must process a shuffle input.
 *
 * @param stored
 *   in-flight rows of the previous epoch, which are processed first
 * @param decided
 *   decision of another attempt with its in-flight rows, if there is one
 * @param mayDefer
 *   whether rows may stay in flight
 * @param isOvertaken
 *   whether the attempt is overtaken from its beginning
 * @param isFinished
 *   whether the epoch is finished from its seal, so that the state of this task does not count
 */
final case class ChannelOpened(
    stored: Option[ChannelRows],
    decided: Option[(ChannelReport, Option[ChannelRows])],
    mayDefer: Boolean,
    isOvertaken: Boolean,
    isFinished: Boolean = false
)
