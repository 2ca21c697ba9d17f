package io.cleancut.objectstore.s3

import java.io.IOException
import java.util.concurrent.atomic.AtomicBoolean

import scala.jdk.CollectionConverters._

import software.amazon.awssdk.core.ResponseBytes
import software.amazon.awssdk.core.sync.ResponseTransformer
import software.amazon.awssdk.services.s3.S3Client
import software.amazon.awssdk.services.s3.model.{
  GetObjectResponse,
  HeadObjectResponse,
  ListMultipartUploadsResponse,
  ListObjectsV2Response,
  NoSuchKeyException,
  S3Exception,
  S3Object
}

import io.cleancut.base.Clock
import io.cleancut.error.Errors
import io.cleancut.objectstore._

/**
 * Objects in a bucket of S3, or of an S3-compatible store.
 *
 * Create-if-absent is a PUT with `If-None-Match: *`, the only condition that every store enforces
 * under a race. Neither compare-and-set nor a conditional completion is used: some stores let
 * several writers win, others ignore the condition.
 */
final class S3Store private (
    where: BucketPath,
    connection: S3Connection,
    policy: RetryPolicy,
    clock: Clock,
    credentials: RenewedCredentials,
    client: S3Client,
    counter: RequestCounter
) extends ObjectStore {
  import S3Store._

  private val loop = new RetryLoop(policy, clock, counter, judge)
  private val requests = new S3Requests(where, connection)
  private val isClosed = new AtomicBoolean

  /** @param client SDK client for all requests */
  private[cleancut] def this(
      where: BucketPath,
      connection: S3Connection,
      policy: RetryPolicy,
      clock: Clock,
      credentials: RenewedCredentials,
      client: S3Client
  ) = this(where, connection, policy, clock, credentials, client, new RequestCounter)

  private[cleancut] def this(
      where: BucketPath,
      connection: S3Connection,
      policy: RetryPolicy,
      clock: Clock,
      credentials: RenewedCredentials
  ) = this(
    where,
    connection,
    policy,
    clock,
    credentials,
    connection.client(where.toString, credentials)
  )

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_STORE_REFUSED if no region is known, or the profile does not exist
   */
  def this(where: BucketPath, connection: S3Connection, policy: RetryPolicy, clock: Clock) =
    this(
      where,
      connection,
      policy,
      clock,
      connection.profile.fold(RenewedCredentials.ofDefaultChain(clock)) {
        RenewedCredentials.ofProfile(_, where.toString, clock)
      }
    )

  override def location: String = where.toString

  override def counts: RequestCounts = counter.now

  /** Shares the connections: closing either one closes both. */
  override def counted: ObjectStore =
    new S3Store(
      where,
      connection,
      policy,
      clock,
      credentials,
      client,
      new RequestCounter(Some(counter))
    )

  override def requestTimeoutMs: Long = policy.deadlineMs

  private def judge(failure: Throwable): Verdict = S3Failures.judge(failure) match {
    case Verdict.Renew(isSure, detail) =>
      if (credentials.renew() || isSure) Verdict.Retry(0) else Verdict.Refuse(detail)
    case other => other
  }

  override def put(key: ObjectKey, body: Array[Byte]): Unit =
    loop(RequestKind.Put, target(key)) { attempt =>
      counter.sentBytes(body.length.toLong)
      client.putObject(requests.put(key, body, attempt).build(), requests.body(body))
      ()
    }

  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult =
    loop(RequestKind.Create, target(key)) { attempt =>
      counter.sentBytes(body.length.toLong)
      try {
        client.putObject(requests.create(key, body, token, attempt), requests.body(body))
        CreateResult.Created
      } catch {
        case e: S3Exception if e.statusCode == S3Failures.PreconditionFailed => whose(key, token)
      }
    }

  /**
   * Finds the writer of an existing object after a refused create. It may be this call, if the
   * response to an earlier attempt was lost, or a proxy sent the request twice. So it is requested
   * after every refusal, and not only after retries.
   */
  private def whose(key: ObjectKey, token: WriterToken): CreateResult = {
    val existing = headResponse(key)
      .getOrElse(throw new IOException(s"the object ${target(key)} was deleted"))
    val writer = Option(existing.metadata.get(S3Requests.TokenName))
      .filter(WriterToken.isToken)
      .map(WriterToken(_))
    if (writer.contains(token)) CreateResult.Created else CreateResult.Exists(writer)
  }

  override def get(key: ObjectKey): Option[Array[Byte]] =
    loop(RequestKind.Get, target(key)) { attempt =>
      try {
        val answer = client.getObject(requests.get(key, attempt).build(), toBytes)
        val bytes = received(answer)
        checkPlace(key, answer.response)
        checkWhole(key, answer.response, bytes, attempt)
        Some(bytes)
      } catch { case _: NoSuchKeyException => None }
    }

  override def getRange(key: ObjectKey, offset: Long, length: Int): RangeResult = {
    require(offset >= 0 && length > 0, s"not a range: $length bytes from $offset")
    val range = s"bytes=$offset-${offset + length - 1}"
    val response = loop(RequestKind.GetRange, target(key)) { attempt =>
      try {
        val request = requests.get(key, attempt).range(range).build()
        val answer = client.getObject(request, toBytes)
        Some(S3Requests.within(answer.response, received(answer), offset, length))
      } catch {
        case _: NoSuchKeyException => Some(RangeResult.Missing)
        case e: S3Exception if e.statusCode == S3Failures.RangeNotSatisfiable => None
      }
    }
    // The response to a range after the end has no size.
    response.getOrElse(head(key).fold[RangeResult](RangeResult.Missing)(tooShort))
  }

  override def getPiece(key: ObjectKey, offset: Long, maxLength: Int): Option[Piece] = {
    require(offset >= 0 && maxLength > 0, s"not a piece: $maxLength bytes from $offset")
    val range = s"bytes=$offset-${offset + maxLength - 1}"
    loop(RequestKind.GetRange, target(key)) { attempt =>
      try {
        val request = requests.get(key, attempt).range(range).build()
        val answer = client.getObject(request, toBytes)
        val piece = S3Requests.piece(answer.response, received(answer), offset, maxLength)
        checkPlace(key, answer.response)
        if (piece.bytes.length == piece.objectBytes)
          checkWhole(key, answer.response, piece.bytes, attempt)
        Some(piece)
      } catch {
        case _: NoSuchKeyException => None
        // Every range of an empty object is invalid.
        case e: S3Exception if e.statusCode == S3Failures.RangeNotSatisfiable && offset == 0 =>
          Some(Piece(0L, Array.emptyByteArray, 0L))
      }
    }
  }

  /** Detects two swapped objects, each of which is intact. */
  private def checkPlace(key: ObjectKey, answer: GetObjectResponse): Unit =
    requests.misplaced(key, answer).foreach { place =>
      throw Errors.cutCorrupted(target(key), s"the object was written as $place")
    }

  /** A mismatch may be corruption in transit, or permanent in the store. */
  private def checkWhole(
      key: ObjectKey,
      answer: GetObjectResponse,
      bytes: Array[Byte],
      attempt: Attempt
  ): Unit =
    if (!S3Requests.isAsWritten(answer, bytes)) {
      val detail = "the bytes do not match the checksum that they were written with"
      if (attempt.number < ReadsOfDamaged) throw new IOException(s"${target(key)}: $detail")
      throw Errors.cutCorrupted(target(key), detail)
    }

  private def tooShort(info: ObjectInfo): RangeResult = RangeResult.TooShort(info.sizeBytes)

  override def head(key: ObjectKey): Option[ObjectInfo] =
    headResponse(key).map { response =>
      ObjectInfo(key, response.contentLength, response.lastModified.toEpochMilli)
    }

  private[objectstore] def headResponse(key: ObjectKey): Option[HeadObjectResponse] =
    loop(RequestKind.Head, target(key)) { attempt =>
      try Some(client.headObject(requests.head(key, attempt)))
      catch { case e: S3Exception if e.statusCode == S3Failures.NotFound => None }
    }

  override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] =
    objects(S3Requests.ListPage(prefix, isOneLevel = false))

  override def listRange(range: ObjectRange): Iterator[ObjectInfo] =
    if (!requests.listsInOrder) super.listRange(range)
    else {
      val first =
        S3Requests.ListPage(range.prefix, isOneLevel = false, after = Some(range.after))
      objects(first).takeWhile(_.key.name < range.until)
    }

  private def objects(first: S3Requests.ListPage): Iterator[ObjectInfo] =
    pages(first)
      .flatMap(_.contents.asScala)
      // Objects without a valid key belong to others and are ignored.
      .flatMap(entry => where.keyOf(entry.key).map(info(_, entry)))

  override def listLevel(prefix: ObjectPrefix): Iterator[Listed] =
    pages(S3Requests.ListPage(prefix, isOneLevel = true)).flatMap { page =>
      // Consoles create an object named like the prefix to show an empty directory.
      val objects = page.contents.asScala.filter(_.key != where.fullName(prefix)).map { entry =>
        where
          .keyOf(entry.key)
          .fold[Listed](foreign(entry.key))(key => Listed.Here(info(key, entry)))
      }
      val prefixes = page.commonPrefixes.asScala.map { common =>
        where.prefixOf(common.prefix).fold[Listed](foreign(common.prefix))(Listed.Below(_))
      }
      objects ++ prefixes
    }

  private def info(key: ObjectKey, entry: S3Object): ObjectInfo =
    ObjectInfo(key, entry.size, entry.lastModified.toEpochMilli)

  private def foreign(fullName: String): Listed = Listed.Foreign(fullName.stripPrefix(where.prefix))

  private def pages(first: S3Requests.ListPage): Iterator[ListObjectsV2Response] =
    Iterator.unfold(Option(first)) {
      _.map { page =>
        val listed = loop(RequestKind.ListPage, s"$location/${page.prefix}") { attempt =>
          client.listObjectsV2(requests.list(page, attempt))
        }
        val isLast = !listed.isTruncated
        listed -> (if (isLast) None
                   else Some(page.copy(continuation = Some(listed.nextContinuationToken))))
      }
    }

  override def delete(keys: Seq[ObjectKey]): Unit =
    keys.distinct.grouped(S3Requests.MaxDeletes).foreach { batch =>
      loop(RequestKind.Delete, s"${batch.size} objects below $location") { attempt =>
        val answer = client.deleteObjects(requests.delete(batch, attempt))
        answer.errors.asScala.headOption.foreach(error => throw S3Requests.asException(error))
      }
    }

  override def upload(key: ObjectKey, partBytes: Int, token: WriterToken): MultipartUpload = {
    val sizes = PartSizes.of(partBytes)
    val id = loop(RequestKind.UploadStart, target(key)) { attempt =>
      client.createMultipartUpload(requests.uploadStart(key, token, attempt)).uploadId
    }
    new S3Upload(this, client, loop, counter, requests, S3Upload.Id(key, id, token), sizes)
  }

  private[objectstore] def abort(key: ObjectKey, uploadId: String): Unit =
    loop(RequestKind.UploadAbort, target(key)) { attempt =>
      try {
        client.abortMultipartUpload(requests.uploadAbort(key, uploadId, attempt))
        ()
      } catch {
        // It was completed, or another process has aborted it.
        case e: S3Exception if e.statusCode == S3Failures.NotFound => ()
      }
    }

  override def dropUnfinished(beforeMs: Long, below: ObjectPrefix): Int = {
    val prefix = where.fullName(below)
    val old = for {
      page <- uploadPages(below)
      upload <- page.uploads.asScala
      // Filters the result, because some stores ignore the prefix.
      if upload.key.startsWith(prefix) && upload.initiated.toEpochMilli < beforeMs
      key <- where.keyOf(upload.key)
    } yield key -> upload.uploadId
    old.map { case (key, uploadId) => abort(key, uploadId) }.size
  }

  private def uploadPages(below: ObjectPrefix): Iterator[ListMultipartUploadsResponse] =
    Iterator.unfold(Option(Option.empty[(String, String)])) {
      _.map { from =>
        val uploads = loop(RequestKind.ListUploads, location) { attempt =>
          client.listMultipartUploads(requests.listUploads(below, from, attempt))
        }
        val isLast = !uploads.isTruncated
        uploads -> (if (isLast) None
                    else Some(Some(uploads.nextKeyMarker -> uploads.nextUploadIdMarker)))
      }
    }

  override def close(): Unit = if (isClosed.compareAndSet(false, true)) {
    client.close()
    credentials.close()
  }

  private[objectstore] def target(key: ObjectKey): String = s"$location/$key"

  private def toBytes: ResponseTransformer[GetObjectResponse, ResponseBytes[GetObjectResponse]] =
    ResponseTransformer.toBytes()

  private def received(answer: ResponseBytes[GetObjectResponse]): Array[Byte] = {
    val bytes = answer.asByteArrayUnsafe
    counter.receivedBytes(bytes.length.toLong)
    bytes
  }
}

private object S3Store {

  /** Number of reads before an object counts as corrupted. */
  val ReadsOfDamaged = 3
}
