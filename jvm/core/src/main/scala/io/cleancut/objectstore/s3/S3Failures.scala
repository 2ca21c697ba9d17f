package io.cleancut.objectstore.s3

import java.io.IOException
import java.nio.channels.ClosedByInterruptException
import java.security.cert.CertificateException
import javax.net.ssl.SSLPeerUnverifiedException

import software.amazon.awssdk.awscore.exception.AwsServiceException
import software.amazon.awssdk.core.exception.{
  AbortedException,
  ApiCallAttemptTimeoutException,
  ApiCallTimeoutException,
  SdkClientException
}

/** Classifies the failures of S3 by status and code. */
private[objectstore] object S3Failures {
  val NotFound = 404
  val PreconditionFailed = 412
  val RangeNotSatisfiable = 416
  private val NotImplemented = 501

  /**
   * Codes with a client error status that are transient nonetheless: a race that the store could
   * not decide, a body that was corrupted or truncated in transit, a clock that the SDK corrects.
   */
  private val PassingCodes = Set(
    "ConditionalRequestConflict",
    "OperationAborted",
    "BadDigest",
    "XAmzContentSHA256Mismatch",
    "IncompleteBody",
    "RequestTimeout",
    "RequestTimeTooSkewed",
    "SlowDown",
    "Throttling",
    "TooManyRequests"
  )

  /** The store no longer accepts the credentials. */
  private val ExpiredCodes =
    Set("ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired")

  private val BadRequest = 400

  private val PassingStatuses = Set(408, 429)
  private val ThrottlePauseMs = 200L
  private val MaxRetryAfterMs = 30000L

  def judge(failure: Throwable): Verdict = failure match {
    case e: AwsServiceException                                         => judgeAnswer(e)
    case _: ApiCallTimeoutException | _: ApiCallAttemptTimeoutException => Verdict.Retry(0)
    case e if isInterrupt(e)                                            => Verdict.Interrupted
    case e if away(e).isDefined                                         => judgeAway(away(e).get)
    case e if untrusted(e).isDefined => Verdict.Refuse(untrusted(e).get)
    case e if isTransport(e)         => Verdict.Retry(0)
    case e: SdkClientException       => Verdict.Refuse(e.getMessage)
    case e                           => Verdict.Refuse(e.toString)
  }

  private def judgeAnswer(e: AwsServiceException): Verdict = {
    val code = Option(e.awsErrorDetails).flatMap(details => Option(details.errorCode)).getOrElse("")
    // Status 200: S3 answers a completion early, and may have to report an error in the body.
    val isServers = e.statusCode >= 500 && e.statusCode != NotImplemented
    val passes = isServers || e.statusCode == 200 ||
      PassingStatuses(e.statusCode) || PassingCodes(code)
    val detail = s"$code (${e.statusCode}): ${message(e)}"
    if (passes) Verdict.Retry(retryAfterMs(e))
    else if (ExpiredCodes(code)) Verdict.Renew(isSure = true, detail)
    // The answer to a HEAD has no body with a reason.
    else if (e.statusCode == BadRequest && isMute(code)) Verdict.Renew(isSure = false, detail)
    else Verdict.Refuse(detail)
  }

  private def isMute(code: String) = code.isEmpty || code == "400" || code == "Bad Request"

  private def judgeAway(e: CredentialsUnavailable): Verdict =
    if (!e.isLasting) Verdict.Retry(0)
    else
      Verdict.Refuse(
        "there are no credentials in the environment, a profile, or the role of the pod or " +
          s"instance (${e.getCause.getMessage})"
      )

  private def away(e: Throwable): Option[CredentialsUnavailable] = causes(e).collectFirst {
    case cause: CredentialsUnavailable => cause
  }

  private def message(e: AwsServiceException): String =
    Option(e.awsErrorDetails).flatMap(d => Option(d.errorMessage)).getOrElse(e.getMessage)

  /** A throttled client that retries immediately is throttled longer. */
  private def retryAfterMs(e: AwsServiceException): Long = {
    val requested = Option(e.awsErrorDetails)
      .flatMap(details => Option(details.sdkHttpResponse))
      .flatMap(response => Option(response.firstMatchingHeader("Retry-After").orElse(null)))
      .flatMap(_.toLongOption)
      .map(seconds => Math.min(seconds * 1000, MaxRetryAfterMs))
    requested.getOrElse(if (e.statusCode == 429 || e.statusCode == 503) ThrottlePauseMs else 0L)
  }

  /** Also while a body is read, whose failures the SDK reports as its own. */
  private def isInterrupt(e: Throwable): Boolean = causes(e).exists {
    case _: AbortedException | _: InterruptedException | _: ClosedByInterruptException => true
    case _                                                                             => false
  }

  private def isTransport(e: Throwable): Boolean = causes(e).exists {
    case _: IOException => true
    case _              => false
  }

  /** The store cannot be reached, and retries would not help. */
  private def untrusted(e: Throwable): Option[String] = causes(e).collectFirst {
    case cause: CertificateException =>
      s"its certificate is not trusted (${cause.getMessage}); set a trust store that contains " +
        "its CA in spark.driver.extraJavaOptions and spark.executor.extraJavaOptions, by " +
        "-Djavax.net.ssl.trustStore and -Djavax.net.ssl.trustStorePassword"
    case cause: SSLPeerUnverifiedException =>
      s"its certificate is for another host: ${cause.getMessage}"
  }

  private def causes(e: Throwable): Iterator[Throwable] =
    Iterator.iterate(e)(_.getCause).takeWhile(_ != null).take(8)
}
