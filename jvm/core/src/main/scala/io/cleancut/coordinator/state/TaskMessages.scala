package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.cutstore.usage.Place
import io.cleancut.format.{FrameName, PlacedFrame}
import io.cleancut.format.cut.{ChannelReading, ChannelReport, SealedFrame}
import io.cleancut.protocol.{ChannelOpened, ChannelTask}

/**
 * The first message of a task attempt: the shuffle inputs that it reads, and the stores that it
 * opens for writing at a version. It also opens all its stores in the last cut, without naming
 * them.
 *
 * @param at
 *   location for error messages
 */
final case class TaskStart(
    attempt: Long,
    operator: Long,
    partition: Int,
    version: Long,
    stores: Seq[StoreId] = Nil,
    channels: Seq[ChannelTask] = Nil,
    at: Option[Place] = None
)

/** The answer for the named and the other stores. */
final case class TaskStarted(
    stores: Map[StoreId, Opened],
    channels: Map[StoreId, ChannelOpened]
)

/** An attempt has read a shuffle input to its end, and its in-flight rows outlive its executor. */
final case class Arrival(report: ChannelReport, reading: ChannelReading)

/**
 * The last message of a task attempt.
 *
 * @param frames
 *   small frames, which are sent with the message
 * @param placed
 *   frames that are already durable
 * @param rows
 *   number of rows that the attempt has read, if it is a task attempt
 */
final case class Delivery(
    attempt: Long,
    frames: Seq[SealedFrame],
    placed: Seq[PlacedFrame],
    arrivals: Seq[Arrival] = Nil,
    rows: Option[Long] = None
) {

  /** The frames in the order of the answers. */
  def names: Seq[FrameName] = frames.map(_.name) ++ placed.map(_.name)
}
