package io.cleancut.objectstore.s3

import java.security.MessageDigest
import java.time.Duration
import java.util.Base64
import java.util.zip.CRC32C

import scala.jdk.CollectionConverters._

import software.amazon.awssdk.awscore.AwsRequestOverrideConfiguration
import software.amazon.awssdk.awscore.exception.{AwsErrorDetails, AwsServiceException}
import software.amazon.awssdk.core.exception.SdkClientException
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.http.ContentStreamProvider
import software.amazon.awssdk.services.s3.model._

import io.cleancut.objectstore._

/** The requests to one bucket as SDK requests. */
final private[objectstore] class S3Requests(where: BucketPath, connection: S3Connection) {
  import S3Requests._

  private val bucket = connection.accessPoint.getOrElse(where.bucket)
  private val bodyCheck = connection.dialect.bodyCheck

  /** A body that the SDK reads in place, repeatedly if necessary. */
  def body(bytes: Array[Byte]): RequestBody =
    RequestBody.fromContentProvider(
      ContentStreamProvider.fromByteArrayUnsafe(bytes),
      bytes.length.toLong,
      ContentType
    )

  def put(key: ObjectKey, body: Array[Byte], attempt: Attempt): PutObjectRequest.Builder = {
    val request = PutObjectRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(key))
      .metadata((written(key) + (ChecksumName -> checksum(body))).asJava)
      .overrideConfiguration(until(attempt))
    bodyCheck match {
      case BodyCheck.ContentMd5 => request.contentMD5(md5(body))
      case BodyCheck.Crc32c     => request.checksumAlgorithm(ChecksumAlgorithm.CRC32_C)
    }
  }

  def create(
      key: ObjectKey,
      body: Array[Byte],
      token: WriterToken,
      attempt: Attempt
  ): PutObjectRequest = {
    val metadata = written(key, token) + (ChecksumName -> checksum(body))
    put(key, body, attempt).ifNoneMatch("*").metadata(metadata.asJava).build()
  }

  private def written(key: ObjectKey): Map[String, String] = Map(PlaceName -> placeOf(key))

  private def written(key: ObjectKey, token: WriterToken): Map[String, String] =
    written(key) + (TokenName -> token.text)

  private def placeOf(key: ObjectKey): String = ObjectPlace.of(where.fullName(key))

  /** The path of another object, if the response states that it was written as one. */
  def misplaced(key: ObjectKey, answer: GetObjectResponse): Option[String] =
    Option(answer.metadata.get(PlaceName)).filter(_ != placeOf(key))

  def get(key: ObjectKey, attempt: Attempt): GetObjectRequest.Builder =
    GetObjectRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(key))
      .overrideConfiguration(until(attempt))

  def head(key: ObjectKey, attempt: Attempt): HeadObjectRequest =
    HeadObjectRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(key))
      .overrideConfiguration(until(attempt))
      .build()

  /** Whether the store lists objects in name order: directory buckets do not. */
  val listsInOrder: Boolean = !Seq("--x-s3", "--xa-s3").exists(bucket.endsWith)

  def list(page: ListPage, attempt: Attempt): ListObjectsV2Request =
    ListObjectsV2Request
      .builder()
      .bucket(bucket)
      .prefix(where.fullName(page.prefix))
      .delimiter(if (page.isOneLevel) "/" else null)
      .continuationToken(page.continuation.orNull)
      .startAfter(if (page.continuation.isEmpty) page.after.map(where.prefix + _).orNull else null)
      .overrideConfiguration(until(attempt))
      .build()

  /** @param from end of the previous page: a name in the bucket and an upload ID */
  def listUploads(
      below: ObjectPrefix,
      from: Option[(String, String)],
      attempt: Attempt
  ): ListMultipartUploadsRequest =
    ListMultipartUploadsRequest
      .builder()
      .bucket(bucket)
      .prefix(where.fullName(below))
      .keyMarker(from.map(_._1).orNull)
      .uploadIdMarker(from.map(_._2).orNull)
      .overrideConfiguration(until(attempt))
      .build()

  def delete(keys: Seq[ObjectKey], attempt: Attempt): DeleteObjectsRequest = {
    val objects = keys.map(key => ObjectIdentifier.builder().key(where.fullName(key)).build())
    DeleteObjectsRequest
      .builder()
      .bucket(bucket)
      .delete(Delete.builder().objects(objects.asJava).quiet(true).build())
      .overrideConfiguration(until(attempt))
      .build()
  }

  def uploadStart(
      key: ObjectKey,
      token: WriterToken,
      attempt: Attempt
  ): CreateMultipartUploadRequest = {
    val request = CreateMultipartUploadRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(key))
      .metadata(written(key, token).asJava)
      .overrideConfiguration(until(attempt))
    if (bodyCheck == BodyCheck.Crc32c)
      request.checksumAlgorithm(ChecksumAlgorithm.CRC32_C)
    request.build()
  }

  def uploadPart(
      id: S3Upload.Id,
      number: Int,
      body: Array[Byte],
      attempt: Attempt
  ): UploadPartRequest = {
    val request = UploadPartRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(id.key))
      .uploadId(id.uploadId)
      .partNumber(number)
      .overrideConfiguration(until(attempt))
    bodyCheck match {
      case BodyCheck.ContentMd5 => request.contentMD5(md5(body)).build()
      case BodyCheck.Crc32c     => request.checksumAlgorithm(ChecksumAlgorithm.CRC32_C).build()
    }
  }

  def uploadComplete(
      id: S3Upload.Id,
      parts: Seq[CompletedPart],
      attempt: Attempt
  ): CompleteMultipartUploadRequest =
    CompleteMultipartUploadRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(id.key))
      .uploadId(id.uploadId)
      .multipartUpload(CompletedMultipartUpload.builder().parts(parts.asJava).build())
      .overrideConfiguration(until(attempt))
      .build()

  def uploadAbort(
      key: ObjectKey,
      uploadId: String,
      attempt: Attempt
  ): AbortMultipartUploadRequest =
    AbortMultipartUploadRequest
      .builder()
      .bucket(bucket)
      .key(where.fullName(key))
      .uploadId(uploadId)
      .overrideConfiguration(until(attempt))
      .build()
}

private[objectstore] object S3Requests {

  /** @param continuation end of the previous page */
  final case class ListPage(
      prefix: ObjectPrefix,
      isOneLevel: Boolean,
      continuation: Option[String] = None,
      after: Option[String] = None
  )

  /** Name of the user metadata with the [[WriterToken]]. */
  val TokenName = "cleancut-writer"

  /**
   * Name of the user metadata with the CRC-32C of all bytes, as eight hexadecimal digits. Objects
   * that were written in parts have none.
   */
  val ChecksumName = "cleancut-crc32c"

  /** Name of the user metadata with the [[ObjectPlace]] to which the object was written. */
  val PlaceName = "cleancut-place"

  /** Whether the bytes match the checksum of the object, if it has one. */
  def isAsWritten(answer: GetObjectResponse, bytes: Array[Byte]): Boolean =
    Option(answer.metadata.get(ChecksumName)).forall(_ == checksum(bytes))

  private def checksum(bytes: Array[Byte]): String = {
    val crc = new CRC32C
    crc.update(bytes)
    f"${crc.getValue}%08x"
  }

  /** Limit of S3 and R2 for one delete request. */
  val MaxDeletes = 1000

  private val ContentType = "application/octet-stream"

  /** A request ends at its deadline, even if data is being transferred. */
  private def until(attempt: Attempt): AwsRequestOverrideConfiguration =
    AwsRequestOverrideConfiguration
      .builder()
      .apiCallTimeout(Duration.ofMillis(attempt.remainingMs))
      .build()

  private def md5(body: Array[Byte]): String =
    Base64.getEncoder.encodeToString(MessageDigest.getInstance("MD5").digest(body))

  private val ContentRange = "bytes (\\d+)-(\\d+)/(\\d+)".r

  /**
   * The response to a range read, compared with the request.
   *
   * @throws software.amazon.awssdk.core.exception.SdkClientException
   *   if the store has returned another range, or the complete object
   */
  def within(
      answer: GetObjectResponse,
      bytes: Array[Byte],
      offset: Long,
      length: Int
  ): RangeResult =
    Option(answer.contentRange).getOrElse("") match {
      case ContentRange(first, last, size)
          if first.toLong == offset && last.toLong - offset + 1 == bytes.length =>
        if (bytes.length == length) RangeResult.Found(bytes)
        else RangeResult.TooShort(size.toLong)
      case other =>
        throw SdkClientException.create(
          s"it returned the range '$other' of ${bytes.length} bytes instead of $length bytes " +
            s"from $offset"
        )
    }

  /** The same without a check of the length, because an object may end before the range. */
  def piece(
      answer: GetObjectResponse,
      bytes: Array[Byte],
      offset: Long,
      maxLength: Int
  ): Piece = within(answer, bytes, offset, maxLength) match {
    case RangeResult.TooShort(sizeBytes) => Piece(offset, bytes, sizeBytes)
    case _                               =>
      val ContentRange(_, _, size) = answer.contentRange: @unchecked
      Piece(offset, bytes, size.toLong)
  }

  /** The error of one object in a batch delete, as if it had been a single delete. */
  def asException(error: S3Error): AwsServiceException = {
    val status = if (error.code == "AccessDenied") 403 else 500
    val details = AwsErrorDetails
      .builder()
      .errorCode(error.code)
      .errorMessage(s"${error.key}: ${error.message}")
      .build()
    S3Exception.builder().statusCode(status).awsErrorDetails(details).build()
  }
}
