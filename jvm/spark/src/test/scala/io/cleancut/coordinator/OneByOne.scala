package io.cleancut.coordinator

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.{Opened, TaskStart}
import io.cleancut.cutstore.usage.Place
import io.cleancut.protocol.{ChannelOpened, ChannelTask, Refusal}

/** Attempts that tell of one thing at a time when they begin. */
object OneByOne {

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

    def openChannel(runId: String, of: ChannelTask): Either[Refusal, ChannelOpened] = {
      val StoreId(operator, partition, _) = of.channel
      val task = TaskStart(of.attempt, operator, partition, of.epoch, Nil, Seq(of))
      cuts.start(runId, task).map(_.channels(of.channel))
    }
  }
}
