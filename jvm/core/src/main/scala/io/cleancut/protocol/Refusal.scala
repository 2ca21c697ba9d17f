package io.cleancut.protocol

import io.cleancut.base.StoreId

/** Why a coordinator does not do what a task of a run asks for. */
sealed trait Refusal extends Product with Serializable {
  def why: String
}

object Refusal {

  /** Another run owns the query by now. */
  final case class Fenced(owner: String) extends Refusal {
    override def why: String = s"the query is owned by $owner"
  }

  /** The task is of an epoch that its run does not work on. */
  final case class NotOpen(epoch: Long, last: Long) extends Refusal {
    override def why: String = s"epoch $epoch is not open, the last committed is $last"
  }

  /** The epoch takes over what is sealed, and this is not. */
  final case class NotSealed(epoch: Long, store: StoreId) extends Refusal {
    override def why: String = s"epoch $epoch is finished from its seal, which does not have $store"
  }

  /** Nothing of the run counts any more. */
  final case class Ended(runId: String) extends Refusal {
    override def why: String = s"run $runId has ended"
  }

  /** What the answer hangs on has failed. */
  final case class Failed(why: String) extends Refusal
}
