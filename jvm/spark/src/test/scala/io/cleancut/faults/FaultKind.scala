package io.cleancut.faults

import scala.util.Random

import io.cleancut.testkit.Fault

/**
 * A kind of fault that the proxy injects into a request.
 *
 * @param isOfBodies
 *   whether it requires a response with a body
 */
final case class FaultKind(name: String, isOfBodies: Boolean = false)(val fault: Random => Fault) {

  /** Whether the fault can strike requests of a step. */
  def concerns(step: Step): Boolean =
    !isOfBodies || Set("read", "read a range", "list")(step.action)

  override def toString: String = name
}

object FaultKind {
  private val DelayMs = 300L

  private val answers = Seq(
    500 -> "InternalError",
    503 -> "SlowDown",
    429 -> "TooManyRequests",
    409 -> "ConditionalRequestConflict"
  )

  private val before = answers.map { case (status, code) =>
    FaultKind(s"$status before")(_ => Fault.Answer(status, code))
  }

  private val after = answers.map { case (status, code) =>
    FaultKind(s"$status after")(_ => Fault.AnswerAfter(status, code))
  }

  private val answerDropped = FaultKind("answer dropped")(_ => Fault.DropAnswer)

  private val flipped =
    FaultKind("flipped", isOfBodies = true)(random => Fault.FlipBody(random.nextDouble()))

  /** Faults without a delay. */
  val quick: Seq[FaultKind] = before ++ after ++
    Seq(
      FaultKind("request dropped")(_ => Fault.DropRequest),
      answerDropped,
      FaultKind("cut short", isOfBodies = true)(random => Fault.CutBody(random.nextInt(100))),
      flipped
    )

  val all: Seq[FaultKind] = FaultKind("delay")(_ => Fault.Delay(DelayMs)) +: quick

  /** One fault of each sort, for faults that last until the query fails. */
  val lasting: Seq[FaultKind] = Seq(before(1), after.head, answerDropped, flipped)
}
