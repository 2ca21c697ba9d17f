package io.cleancut.protocol

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.conf.Capture
import io.cleancut.format.FramePlace
import io.cleancut.format.cut.ChannelReport

/**
 * A task attempt that begins to read a channel.
 *
 * @param partitions
 *   of the operator
 * @param executor
 *   on which it runs
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

/** The rows of a channel in one epoch: a frame that is durable, or one that the driver holds. */
sealed trait ChannelRows

object ChannelRows {
  final case class Placed(version: StateVersion, place: FramePlace) extends ChannelRows
  final case class Held(version: StateVersion, bytes: Array[Byte]) extends ChannelRows
}

/**
 * What a task attempt is to do with a channel.
 *
 * @param stored
 *   rows of the epoch before, which come first
 * @param decided
 *   if another attempt has decided already: what, and the rows that stay in flight
 * @param mayDefer
 *   whether rows may stay in flight at all
 * @param isOvertaken
 *   from its beginning
 * @param isFinished
 *   the epoch is finished from its seal: what the task would make of its rows does not count
 */
final case class ChannelOpened(
    stored: Option[ChannelRows],
    decided: Option[(ChannelReport, Option[ChannelRows])],
    mayDefer: Boolean,
    isOvertaken: Boolean,
    isFinished: Boolean = false
)
