package io.cleancut.objectstore.s3

import java.io.IOException
import java.nio.charset.StandardCharsets.US_ASCII
import java.nio.file.{Files, Path}
import java.security.MessageDigest
import java.util.Base64

import io.cleancut.conf.Keys
import io.cleancut.error.Errors

/** How a store encrypts objects, if requests have to specify it. */
sealed trait Encryption

object Encryption {

  /** The setting of the bucket. */
  case object OfBucket extends Encryption

  /** Keys that the store manages (SSE-S3). */
  case object OfStore extends Encryption

  /**
   * A key of a key management service (SSE-KMS).
   *
   * @param key
   *   None for the default key of the account
   * @param isByBucket
   *   whether one data key is shared by many objects of the bucket
   */
  final case class Kms(key: Option[String], isByBucket: Boolean) extends Encryption

  /** A key that is sent with each request (SSE-C). It is part of no text. */
  final class Customer(key: Array[Byte]) extends Encryption {
    val algorithm: String = "AES256"
    def base64: String = Base64.getEncoder.encodeToString(key)
    def md5: String =
      Base64.getEncoder.encodeToString(MessageDigest.getInstance("MD5").digest(key))
    override def toString: String = "Customer(…)"
  }

  private val KeyBytes = 32
  private val KmsText = "kms(-bucket-key)?(?::(.+))?".r
  private val CustomerText = "customer:(.+)".r

  /**
   * Parses the value of the key `s3.encryption`.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_REFUSED if the file with a customer's key is invalid
   */
  def of(text: Option[String]): Encryption = text match {
    case None                         => OfBucket
    case Some("s3")                   => OfStore
    case Some(KmsText(byBucket, key)) => Kms(Option(key), byBucket != null)
    case Some(CustomerText(file))     => new Customer(keyIn(Path.of(file)))
    case Some(other)                  => throw new IllegalArgumentException(other)
  }

  private def keyIn(file: Path): Array[Byte] = {
    def refused(detail: String, cause: Throwable) =
      throw Errors.objectStoreRefused("open", file.toString, detail, cause)
    val key =
      try Base64.getMimeDecoder.decode(new String(Files.readAllBytes(file), US_ASCII).trim)
      catch {
        case e: IOException =>
          refused(s"the file in ${Keys.S3Encryption.name} cannot be read", e)
      }
    if (key.length != KeyBytes)
      refused(
        s"it contains ${key.length} bytes in base64 instead of a key of $KeyBytes bytes",
        null
      )
    key
  }
}
