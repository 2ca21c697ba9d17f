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
 * Credentials from a source that may be away for a moment, as an instance's metadata service is
 * when a whole cluster asks it, and that may have latest what the store does not take any more.
 *
 * @param newSource
 *   makes one that remembers nothing
 */
final private[objectstore] class RenewedCredentials(
    newSource: () => AwsCredentialsProvider,
    clock: Clock
) extends AwsCredentialsProvider {
  import RenewedCredentials._

  // All under the lock of this, which nobody holds while a source is asked.
  private var source = newSource()
  private var latest = Option.empty[AwsCredentials]
  private var failingSinceNs = Option.empty[Long]
  private var renewedNs = Option.empty[Long]

  override def resolveCredentials(): AwsCredentials =
    try {
      val found = synchronized(source).resolveCredentials()
      synchronized {
        latest = Some(found)
        failingSinceNs = None
      }
      found
    } catch { case NonFatal(e) => throw new CredentialsAway(isLasting(), e) }

  /** Without any so far it is likelier that none were configured than that their source is away. */
  private def isLasting(): Boolean = synchronized {
    val sinceNs = failingSinceNs.getOrElse(clock.monotonicNs())
    failingSinceNs = Some(sinceNs)
    latest.isEmpty && clock.monotonicNs() - sinceNs >= PatienceNs
  }

  /**
   * Asks the source anew, for the store does not take what it gave. Whether it gives others now.
   * Requests that failed together ask once.
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
    Try(resolveCredentials()).toOption.exists(found => !before.contains(found))
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
   * Those of a profile of this machine, which is read anew when its files change.
   *
   * @param target
   *   for messages
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_REFUSED, there is no such profile
   */
  def ofProfile(name: String, target: String, clock: Clock): RenewedCredentials = {
    // Else it would be waited for, like a source that is away.
    if (ProfileFile.defaultProfileFile().profile(name).isEmpty) {
      val detail = s"the AWS configuration of this machine has no profile $name; the driver and " +
        s"each executor need it, in ~/.aws or where AWS_SHARED_CREDENTIALS_FILE says"
      throw Errors.objectStoreRefused("open", target, detail)
    }
    new RenewedCredentials(() => ProfileCredentialsProvider.create(name), clock)
  }
}

/**
 * The source of credentials does not answer.
 *
 * @param isLasting
 *   whether it never has, for so long that there is none
 */
final private[objectstore] class CredentialsAway(val isLasting: Boolean, cause: Throwable)
    extends RuntimeException("the source of credentials gave none", cause)
