package io.cleancut.objectstore.s3

import java.util.concurrent.TimeUnit.{MILLISECONDS, NANOSECONDS}

import scala.annotation.tailrec
import scala.util.control.NonFatal

import io.cleancut.base.Clock
import io.cleancut.error.{CleancutException, Errors}
import io.cleancut.objectstore.{RequestCounter, RequestKind}

/** What a failed attempt means. */
sealed private[objectstore] trait Verdict

private[objectstore] object Verdict {

  /** It may pass. `atLeastMs` is how long the store asked to be left alone. */
  final case class Retry(atLeastMs: Long) extends Verdict

  /** It will not pass; the detail says why in the store's words. */
  final case class Refuse(detail: String) extends Verdict

  /**
   * It may pass with other credentials.
   *
   * @param isSure
   *   whether the credentials were the reason; if not, it is worth another attempt only where there
   *   are others now
   */
  final case class Renew(isSure: Boolean, detail: String) extends Verdict

  case object Interrupted extends Verdict
}

/**
 * One of the attempts at a request.
 *
 * @param remainingMs
 *   until the deadline
 */
final private[objectstore] case class Attempt(number: Int, remainingMs: Long)

/** Repeats requests until they succeed, are refused, or the deadline has passed; counts them. */
final private[objectstore] class RetryLoop(
    policy: RetryPolicy,
    clock: Clock,
    counter: RequestCounter,
    judge: Throwable => Verdict
) {

  /**
   * @param target
   *   what the request is about, for the message
   * @param once
   *   one attempt; what it throws is judged
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
          // Of a request within this one, which has had its own attempts.
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

  /** Returns when the next attempt is due, or throws why there is none. */
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
        // The exception says it now; a client that set the flag too would interrupt what follows.
        Thread.interrupted()
        val interrupted = new InterruptedException(s"interrupted in ${kind.name} of $target")
        interrupted.initCause(failure)
        throw interrupted
      // Where nobody has credentials to renew.
      case Verdict.Renew(_, detail) =>
        throw failed(Errors.objectStoreRefused(kind.name, target, detail, failure))
      case Verdict.Refuse(detail) =>
        throw failed(Errors.objectStoreRefused(kind.name, target, detail, failure))
      case Verdict.Retry(atLeastMs) =>
        val pauseMs = Math.max(atLeastMs, policy.pauseMs(number, clock))
        // To sleep towards a deadline that ends the request anyway would only hold the caller up.
        if (elapsedMs + pauseMs >= policy.deadlineMs)
          throw failed(
            Errors.objectStoreUnavailable(kind.name, target, number, elapsedMs, failure)
          )
        clock.sleep(pauseMs, MILLISECONDS)
    }
  }
}
