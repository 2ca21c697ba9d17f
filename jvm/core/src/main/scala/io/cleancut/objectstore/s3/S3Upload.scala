package io.cleancut.objectstore.s3

import scala.collection.immutable.SortedMap

import software.amazon.awssdk.services.s3.S3Client
import software.amazon.awssdk.services.s3.model.{CompletedPart, S3Exception}

import io.cleancut.objectstore._

/** A multipart upload of S3. The calling threads send the parts immediately. */
final private[objectstore] class S3Upload(
    store: S3Store,
    client: S3Client,
    loop: RetryLoop,
    counter: RequestCounter,
    requests: S3Requests,
    id: S3Upload.Id,
    empty: PartSizes
) extends MultipartUpload {
  private val target = store.target(id.key)

  // Under this lock, as are the next two fields; requests are made without it.
  private var sizes = empty
  private var sent = SortedMap.empty[Int, CompletedPart]
  private var isComplete = false

  override def part(number: Int, body: Array[Byte]): Unit = {
    synchronized { sizes = sizes.added(number, body.length) }
    val answer = loop(RequestKind.UploadPart, target) { attempt =>
      counter.sentBytes(body.length.toLong)
      client.uploadPart(requests.uploadPart(id, number, body, attempt), requests.body(body))
    }
    val part = CompletedPart
      .builder()
      .partNumber(number)
      .eTag(answer.eTag)
      .checksumCRC32C(answer.checksumCRC32C)
      .build()
    synchronized { sent = sent.updated(number, part) }
  }

  override def complete(): Unit = {
    val (parts, totalBytes) = synchronized {
      require(!isComplete, s"the upload of $target is complete already")
      sizes.checkComplete()
      require(sent.size == sizes.sizes.size, s"parts of $target are still being sent")
      (sent.values.toSeq, sizes.totalBytes)
    }
    loop(RequestKind.UploadComplete, target) { attempt =>
      try {
        client.completeMultipartUpload(requests.uploadComplete(id, parts, attempt))
        ()
      } catch {
        // The response to an earlier attempt was lost: a completed upload has no ID.
        case e: S3Exception if e.statusCode == S3Failures.NotFound && exists(totalBytes) => ()
      }
    }
    synchronized { isComplete = true }
  }

  private def exists(totalBytes: Long): Boolean =
    store.headResponse(id.key).exists { existing =>
      existing.contentLength == totalBytes &&
      id.token.text == existing.metadata.get(S3Requests.TokenName)
    }

  override def abort(): Unit = if (!synchronized(isComplete)) store.abort(id.key, id.uploadId)
}

private[objectstore] object S3Upload {
  final case class Id(key: ObjectKey, uploadId: String, token: WriterToken)
}
