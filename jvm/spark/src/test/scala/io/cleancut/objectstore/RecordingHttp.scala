package io.cleancut.objectstore

import java.io.ByteArrayInputStream
import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import software.amazon.awssdk.http._
import software.amazon.awssdk.utils.AttributeMap

/** An HTTP client that records the signed requests of the SDK and responds to each with success. */
final class RecordingHttp extends SdkHttpClient with SdkHttpClient.Builder[RecordingHttp] {
  private val sent = new ConcurrentLinkedQueue[SdkHttpRequest]

  /** The requests since the last call. */
  def requests(): Seq[SdkHttpRequest] = {
    val recorded = sent.asScala.toSeq
    sent.clear()
    recorded
  }

  override def prepareRequest(request: HttpExecuteRequest): ExecutableHttpRequest =
    new ExecutableHttpRequest {
      override def call(): HttpExecuteResponse = {
        sent.add(request.httpRequest)
        answer(request.httpRequest)
      }
      override def abort(): Unit = ()
    }

  private def answer(request: SdkHttpRequest): HttpExecuteResponse = {
    val body = request.method match {
      case SdkHttpMethod.POST | SdkHttpMethod.GET =>
        "<Answer><UploadId>u</UploadId><IsTruncated>false</IsTruncated></Answer>"
      case _ => ""
    }
    val bytes = body.getBytes(UTF_8)
    val response = SdkHttpResponse
      .builder()
      .statusCode(200)
      .putHeader("ETag", "\"1\"")
      .putHeader("Last-Modified", "Tue, 01 Jan 2030 00:00:00 GMT")
      .putHeader("Content-Length", bytes.length.toString)
      .build()
    HttpExecuteResponse
      .builder()
      .response(response)
      .responseBody(AbortableInputStream.create(new ByteArrayInputStream(bytes)))
      .build()
  }

  override def build(): RecordingHttp = this

  override def buildWithDefaults(defaults: AttributeMap): SdkHttpClient = this

  override def close(): Unit = ()
}
