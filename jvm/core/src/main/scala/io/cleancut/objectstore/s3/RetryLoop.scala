package io.cleancut.objectstore.s3

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.cleancut.base.Clock
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.{RequestCounter, RequestKind}

/** The classification of a failed attempt. */
sealed private[objectstore] trait Verdict

private[objectstore] object Verdict {

  /** The failure is transient. `atLeastMs` is the pause that the store requested. */
  final case class Retry(atLeastMs: Long) extends Verdict

  /** The failure is permanent; the detail has the store's reason. */
  final case class Refuse(detail: String) extends Verdict

  /**
   * Other credentials may succeed.
   *
   * @param isSure
   *   whether the credentials were the reason; if not, another attempt is made only if the
   *   credentials have changed
   */
  final case class Renew(isSure: Boolean, detail: String) extends Verdict

  case object Interrupted extends Verdict
}

/**
 * An attempt of a request.
 *
 * @param remainingMs
 *   time until the deadline
 */
final private[objectstore] case class Attempt(number: Int, remainingMs: Long)

/**
 * Retries requests until they succeed, are refused, or the deadline has passed, and counts them.
 */
final private[objectstore] class RetryLoop(
    policy: RetryPolicy,
    clock: Clock,
    counter: RequestCounter,
    judge: Throwable => Verdict
) {

  /**
   * @param target
   *   object or location of the request, for the message
   * @param once
   *   one attempt; its errors are classified
   */
  def apply[A](kind: RequestKind, target: String)(once: Attempt => A): A = {
    val startNs = clock.monotonicNs()
    def elapsedMs: Long = NANOSECONDS.toMillis(clock.monotonicNs() - startNs)

    @tailrec def attempt(number: Int): A = {
      counter.sent(kind, isRetry = number > 1)
      val sentNs = clock.monotonicNs()
      val outcome =
        try Right(once(Attempt(number, Math.max(1, policy.deadlineMs - elapsedMs))))
        catch {
          // The error of a nested request, which had its own attempts.
          case e: CleancutException =>
            counter.failed(kind)
            throw e
          case NonFatal(e) => Left(e)
        }
      outcome match {
        case Right(result) =>
          if (kind.sendsBody) counter.tookToSend(clock.monotonicNs() - sentNs)
          result
        case Left(failure) =>
          pause(kind, target, number, elapsedMs, failure)
          counter.waited(clock.monotonicNs() - sentNs)
          attempt(number + 1)
      }
    }
    attempt(1)
  }

  /** Returns when the next attempt is due, or throws if there is none. */
  private def pause(
      kind: RequestKind,
      target: String,
      number: Int,
      elapsedMs: Long,
      failure: Throwable
  ): Unit = {
    def failed(e: CleancutException): CleancutException = {
      counter.failed(kind)
      e
    }
    judge(failure) match {
      case Verdict.Interrupted =>
        counter.failed(kind)
        // The exception is sufficient; setting the interrupt flag too would interrupt later code.
        Thread.interrupted()
        val interrupted = new InterruptedException(s"interrupted in ${kind.name} of $target")
        interrupted.initCause(failure)
        throw interrupted
      // If no credentials can be renewed.
      case Verdict.Renew(_, detail) =>
        throw failed(Errors.objectStoreRefused(kind.name, target, detail, failure))
      case Verdict.Refuse(detail) =>
        throw failed(Errors.objectStoreRefused(kind.name, target, detail, failure))
      case Verdict.Retry(atLeastMs) =>
        val pauseMs = Math.max(atLeastMs, policy.pauseMs(number, clock))
        // A pause beyond the deadline would only delay the caller.
        if (elapsedMs + pauseMs >= policy.deadlineMs)
          throw failed(
            Errors.objectStoreUnavailable(kind.name, target, number, elapsedMs, failure)
          )
        clock.sleep(pauseMs, MILLISECONDS)
    }
  }
}
