package io.cleancut.objectstore

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentialsProvider}
import software.amazon.awssdk.core.exception.SdkClientException

import io.cleancut.error.CleancutException
import io.cleancut.objectstore.s3.{RenewedCredentials, RetryLoop, RetryPolicy, S3Failures}
import io.cleancut.testkit.ManualClock

/** Requests while a source of credentials is temporarily unavailable. */
class RenewedCredentialsSuite extends AnyFunSuite {
  private val clock = new ManualClock
  private val one = AwsBasicCredentials.create("one", "secret")
  private val two = AwsBasicCredentials.create("two", "secret")

  private def unavailable = SdkClientException.create("Unable to load credentials from the service")

  /**
   * A source that returns these credentials in turn, and the last ones from then on. None stands
   * for an unavailable source.
   */
  private def source(answers: Option[AwsBasicCredentials]*): RenewedCredentials = {
    val left = mutable.Queue(answers: _*)
    val provider: AwsCredentialsProvider = () => {
      val next = if (left.size > 1) left.dequeue() else left.head
      next.getOrElse(throw unavailable)
    }
    new RenewedCredentials(() => provider, clock)
  }

  private def request(credentials: RenewedCredentials, timeoutMs: Long = 120000) = {
    val counter = new RequestCounter
    val loop = new RetryLoop(RetryPolicy(timeoutMs), clock, counter, S3Failures.judge)
    val answer =
      try Right(loop(RequestKind.Get, "s3://b/a")(_ => credentials.resolveCredentials()))
      catch { case e: CleancutException => Left(e) }
    (answer, counter.now(RequestKind.Get).requests)
  }

  test("a source that is briefly unavailable is retried") {
    assert(request(source(None, None, Some(one))) == ((Right(one), 3L)))
  }

  test("a source that has returned credentials before is retried as long as the store") {
    val credentials = source(Some(one), None)
    credentials.resolveCredentials()
    val (Left(thrown), attempts) = request(credentials): @unchecked
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNAVAILABLE" && attempts > 20)
  }

  test("a source without any credentials fails earlier") {
    val startNs = clock.monotonicNs()
    val (Left(thrown), _) = request(source(None)): @unchecked
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
    assert(thrown.getMessage.contains("there are no credentials in the environment"))
    val seconds = (clock.monotonicNs() - startNs) / 1000000000L
    assert(seconds >= 15 && seconds < 30)
  }

  test("a missing profile is not retried") {
    val startNs = clock.monotonicNs()
    val thrown = intercept[CleancutException](
      RenewedCredentials.ofProfile("no-such-profile", "s3://bucket/q", clock)
    )
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
    assert(thrown.getMessage.contains("no profile no-such-profile"))
    assert(clock.monotonicNs() == startNs)
  }

  test("credentials that the store refuses are renewed") {
    val sources = mutable.Queue(one, two)
    val credentials =
      new RenewedCredentials(() => { val next = sources.dequeue(); () => next }, clock)
    assert(credentials.resolveCredentials() == one)
    assert(credentials.renew() && credentials.resolveCredentials() == two)
    // Many requests fail concurrently, and no third credentials exist.
    assert(!credentials.renew() && credentials.resolveCredentials() == two)
  }
}
