package io.cleancut.coordinator.sim

import java.util.concurrent.CompletableFuture

import io.cleancut.protocol.{Ack, Refusal}

/** Responses with which a coordinator accepts a run as the latest one. */
object AcceptedResponses {

  def right[A, B](answer: Either[A, B]): Boolean = answer.isRight

  def acked(answer: Ack): Boolean = answer == Ack.Accepted || answer == Ack.Duplicate

  def delivered(answer: Either[Refusal, CompletableFuture[Seq[Option[Ack]]]]): Boolean =
    answer.exists { done =>
      !done.isDone || (!done.isCompletedExceptionally && done.get().flatten.forall(acked))
    }
}
