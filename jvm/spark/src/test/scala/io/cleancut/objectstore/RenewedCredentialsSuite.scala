package io.cleancut.objectstore

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentialsProvider}
import software.amazon.awssdk.core.exception.SdkClientException

import io.cleancut.error.CleancutException
import io.cleancut.objectstore.s3.{RenewedCredentials, RetryLoop, RetryPolicy, S3Failures}
import io.cleancut.testkit.ManualClock

/** Sources of credentials that come and go, and what becomes of requests meanwhile. */
class RenewedCredentialsSuite extends AnyFunSuite {
  private val clock = new ManualClock
  private val one = AwsBasicCredentials.create("one", "secret")
  private val two = AwsBasicCredentials.create("two", "secret")

  private def away = SdkClientException.create("Unable to load credentials from the service")

  /** Gives, in turn, what is listed; the last for ever. None is a source that is away. */
  private def source(answers: Option[AwsBasicCredentials]*): RenewedCredentials = {
    val left = mutable.Queue(answers: _*)
    val provider: AwsCredentialsProvider = () => {
      val next = if (left.size > 1) left.dequeue() else left.head
      next.getOrElse(throw away)
    }
    new RenewedCredentials(() => provider, clock)
  }

  private def asked(credentials: RenewedCredentials, timeoutMs: Long = 120000) = {
    val counter = new RequestCounter
    val loop = new RetryLoop(RetryPolicy(timeoutMs), clock, counter, S3Failures.judge)
    val answer =
      try Right(loop(RequestKind.Get, "s3://b/a")(_ => credentials.resolveCredentials()))
      catch { case e: CleancutException => Left(e) }
    (answer, counter.now(RequestKind.Get).requests)
  }

  test("a source that is away for a moment is asked again") {
    assert(asked(source(None, None, Some(one))) == ((Right(one), 3L)))
  }

  test("one that has given credentials before is waited for as long as the store would be") {
    val credentials = source(Some(one), None)
    credentials.resolveCredentials()
    val (Left(thrown), attempts) = asked(credentials): @unchecked
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNAVAILABLE" && attempts > 20)
  }

  test("where there are none at all it is said before that") {
    val startNs = clock.monotonicNs()
    val (Left(thrown), _) = asked(source(None)): @unchecked
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
    assert(thrown.getMessage.contains("there are no credentials in the environment"))
    val seconds = (clock.monotonicNs() - startNs) / 1000000000L
    assert(seconds >= 15 && seconds < 30)
  }

  test("a profile that is not there is not waited for") {
    val startNs = clock.monotonicNs()
    val thrown = intercept[CleancutException](
      RenewedCredentials.ofProfile("no-such-profile", "s3://bucket/q", clock)
    )
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
    assert(thrown.getMessage.contains("no profile no-such-profile"))
    assert(clock.monotonicNs() == startNs)
  }

  test("what the store does not take any more is asked for anew") {
    val sources = mutable.Queue(one, two)
    val credentials =
      new RenewedCredentials(() => { val next = sources.dequeue(); () => next }, clock)
    assert(credentials.resolveCredentials() == one)
    assert(credentials.renew() && credentials.resolveCredentials() == two)
    // Many requests fail at once, and there is no third.
    assert(!credentials.renew() && credentials.resolveCredentials() == two)
  }
}
