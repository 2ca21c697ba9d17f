package io.cleancut.coordinator.state

import io.cleancut.base.StoreId
import io.cleancut.cutstore.usage.Place
import io.cleancut.format.{FrameName, PlacedFrame}
import io.cleancut.format.cut.{ChannelReading, ChannelReport, SealedFrame}
import io.cleancut.protocol.{ChannelOpened, ChannelTask}

/**
 * What a task attempt says when it begins: which channels it reads and which stores it opens for
 * writing, at a version. It opens what the last cut has beside these stores, too, so that it need
 * not say so of each.
 *
 * @param at
 *   a place that errors name
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

/** The answer, for what it has named and for what is beside that. */
final case class TaskStarted(
    stores: Map[StoreId, Opened],
    channels: Map[StoreId, ChannelOpened]
)

/** An attempt has read a channel to its end, and what it left in flight outlives its executor. */
final case class Arrival(report: ChannelReport, reading: ChannelReading)

/**
 * What a task attempt says when it is done.
 *
 * @param frames
 *   so small that they go with it
 * @param placed
 *   those that are durable already
 * @param rows
 *   that the attempt has read, where it is that of a task
 */
final case class Delivery(
    attempt: Long,
    frames: Seq[SealedFrame],
    placed: Seq[PlacedFrame],
    arrivals: Seq[Arrival] = Nil,
    rows: Option[Long] = None
) {

  /** In the order in which they are answered. */
  def names: Seq[FrameName] = frames.map(_.name) ++ placed.map(_.name)
}
