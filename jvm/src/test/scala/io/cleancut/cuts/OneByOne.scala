package io.cleancut.cuts

import io.cleancut.StoreId
import io.cleancut.channels.{ChannelOpened, ChannelTask}

/** Attempts that tell of one thing at a time when they begin. */
object OneByOne {

  implicit class Attempts(cuts: QueryCuts) {
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
