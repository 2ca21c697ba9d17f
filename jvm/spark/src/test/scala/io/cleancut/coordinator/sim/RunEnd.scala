package io.cleancut.coordinator.sim

/** How a run of the query ended. */
sealed abstract class RunEnd(val name: String) extends Product with Serializable

object RunEnd {
  case object AtTarget extends RunEnd("no epoch left")
  case object StoppedBetween extends RunEnd("stopped between epochs")
  case object StoppedWithin extends RunEnd("stopped within an epoch")
  case object HandedOver extends RunEnd("handed over")
  case object Fenced extends RunEnd("fenced")
  case object Refused extends RunEnd("incomplete operation")

  /** A task or a request has failed, or another run has begun the query. */
  case object Failed extends RunEnd("failed")
  case object Crashed extends RunEnd("driver crashed")

  val all: Seq[RunEnd] =
    Seq(AtTarget, StoppedBetween, StoppedWithin, HandedOver, Fenced, Refused, Failed, Crashed)
}
