package io.cleancut.coordinator.sim

import java.util.concurrent.CompletableFuture

import io.cleancut.protocol.{Ack, Refusal}

/** Which answers of a coordinator mean that it took the run that asked for the latest. */
object Believed {

  def right[A, B](answer: Either[A, B]): Boolean = answer.isRight

  def acked(answer: Ack): Boolean = answer == Ack.Accepted || answer == Ack.Duplicate

  def delivered(answer: Either[Refusal, CompletableFuture[Seq[Option[Ack]]]]): Boolean =
    answer.exists { done =>
      !done.isDone || (!done.isCompletedExceptionally && done.get().flatten.forall(acked))
    }
}
