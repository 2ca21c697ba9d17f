package io.cleancut.objectstore.s3

import java.util.concurrent.TimeUnit.SECONDS

import scala.util.Try
import scala.util.control.NonFatal

import software.amazon.awssdk.auth.credentials.{
  AwsCredentials,
  AwsCredentialsProvider,
  DefaultCredentialsProvider,
  ProfileCredentialsProvider
}
import software.amazon.awssdk.profiles.ProfileFile
import software.amazon.awssdk.utils.SdkAutoCloseable

import io.cleancut.base.Clock
import io.cleancut.error.Errors

/**
 * Credentials from a source that may be unavailable for a moment, such as an instance's metadata
 * service under the load of a cluster, and that may have cached credentials that the store no
 * longer accepts.
 *
 * @param newSource
 *   creates a source without cached credentials
 */
final private[objectstore] class RenewedCredentials(
    newSource: () => AwsCredentialsProvider,
    clock: Clock
) extends AwsCredentialsProvider {
  import RenewedCredentials._

  // All under this lock, which is not held while a source resolves credentials.
  private var source = newSource()
  private var latest = Option.empty[AwsCredentials]
  private var failingSinceNs = Option.empty[Long]
  private var renewedNs = Option.empty[Long]

  override def resolveCredentials(): AwsCredentials =
    try {
      val credentials = synchronized(source).resolveCredentials()
      synchronized {
        latest = Some(credentials)
        failingSinceNs = None
      }
      credentials
    } catch { case NonFatal(e) => throw new CredentialsUnavailable(isLasting(), e) }

  /**
   * Without any credentials so far, they are more likely not configured than temporarily
   * unavailable.
   */
  private def isLasting(): Boolean = synchronized {
    val sinceNs = failingSinceNs.getOrElse(clock.monotonicNs())
    failingSinceNs = Some(sinceNs)
    latest.isEmpty && clock.monotonicNs() - sinceNs >= PatienceNs
  }

  /**
   * Resolves credentials again, because the store refused the current ones. Returns whether they
   * have changed. Concurrent failed requests resolve once.
   */
  def renew(): Boolean = {
    val before = synchronized {
      val isDue = renewedNs.forall(clock.monotonicNs() - _ >= RestNs)
      if (isDue) {
        closeSource()
        source = newSource()
        renewedNs = Some(clock.monotonicNs())
      }
      latest
    }
    Try(resolveCredentials()).toOption.exists(credentials => !before.contains(credentials))
  }

  def close(): Unit = synchronized(closeSource())

  private def closeSource(): Unit = source match {
    case open: SdkAutoCloseable => open.close()
    case _                      => ()
  }
}

private[objectstore] object RenewedCredentials {
  private val PatienceNs = SECONDS.toNanos(15)
  private val RestNs = SECONDS.toNanos(1)

  /** Environment, profile, pod or instance role. */
  def ofDefaultChain(clock: Clock): RenewedCredentials =
    new RenewedCredentials(() => DefaultCredentialsProvider.builder().build(), clock)

  /**
   * The credentials of a profile on this machine, which is read again when its files change.
   *
   * @param target
   *   location for messages
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_REFUSED if there is no such profile
   */
  def ofProfile(name: String, target: String, clock: Clock): RenewedCredentials = {
    // Otherwise requests would wait for it, as for an unavailable source.
    if (ProfileFile.defaultProfileFile().profile(name).isEmpty) {
      val detail = s"the AWS configuration of this machine has no profile $name; the driver and " +
        s"each executor need it, in ~/.aws or in AWS_SHARED_CREDENTIALS_FILE"
      throw Errors.objectStoreRefused("open", target, detail)
    }
    new RenewedCredentials(() => ProfileCredentialsProvider.create(name), clock)
  }
}

/**
 * The source of credentials does not respond.
 *
 * @param isLasting
 *   whether it is unavailable for so long that it is considered missing
 */
final private[objectstore] class CredentialsUnavailable(val isLasting: Boolean, cause: Throwable)
    extends RuntimeException("the source of credentials returned none", cause)
