package io.cleancut.coordinator

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.{Opened, TaskStart}
import io.cleancut.cutstore.usage.Place
import io.cleancut.protocol.{ChannelOpened, ChannelTask, Refusal}

/** Attempts that register one store or one shuffle input per request. */
object SingleRegistrations {

  implicit class Attempts(cuts: QueryCoordinator) {
    def open(
        runId: String,
        attempt: Long,
        store: StoreId,
        version: Long,
        at: Option[Place] = None
    ): Either[Refusal, Opened] = {
      val task = TaskStart(attempt, store.operator, store.partition, version, Seq(store), Nil, at)
      cuts.start(runId, task).map(_.stores(store))
    }

    def openChannel(runId: String, input: ChannelTask): Either[Refusal, ChannelOpened] = {
      val StoreId(operator, partition, _) = input.channel
      val task = TaskStart(input.attempt, operator, partition, input.epoch, Nil, Seq(input))
      cuts.start(runId, task).map(_.channels(input.channel))
    }
  }
}
