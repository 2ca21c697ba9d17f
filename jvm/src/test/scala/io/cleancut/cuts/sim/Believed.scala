package io.cleancut.cuts.sim

import java.util.concurrent.CompletableFuture

import io.cleancut.cuts.Ack

/** Which answers of a coordinator mean that it took the run that asked for the latest. */
object Believed {

  def right[A, B](answer: Either[A, B]): Boolean = answer.isRight

  def acked(answer: Ack): Boolean = answer == Ack.Accepted || answer == Ack.Duplicate

  def reported(answer: CompletableFuture[Ack]): Boolean =
    !answer.isDone || (!answer.isCompletedExceptionally && acked(answer.get()))

  def submitted(answer: Option[CompletableFuture[Ack]]): Boolean = answer.forall(reported)
}
