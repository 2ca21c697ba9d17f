package io.cleancut.protocol

import io.cleancut.base.StoreId

/** The reason why a coordinator refuses the request of a task. */
sealed trait Refusal extends Product with Serializable {
  def why: String
}

object Refusal {

  /** Another run owns the query by now. */
  final case class Fenced(owner: String) extends Refusal {
    override def why: String = s"the query is owned by $owner"
  }

  /** The task belongs to an epoch that its run does not process. */
  final case class NotOpen(epoch: Long, last: Long) extends Refusal {
    override def why: String = s"epoch $epoch is not open, the last committed is $last"
  }

  /** The epoch takes over sealed versions, and this store has none. */
  final case class NotSealed(epoch: Long, store: StoreId) extends Refusal {
    override def why: String = s"epoch $epoch is finished from its seal, which lacks $store"
  }

  /** The run has ended. */
  final case class Ended(runId: String) extends Refusal {
    override def why: String = s"run $runId has ended"
  }

  /** The operation that the answer depends on has failed. */
  final case class Failed(why: String) extends Refusal
}
