package io.cleancut.objectstore.s3

import software.amazon.awssdk.core.interceptor.{
  Context,
  ExecutionAttributes,
  ExecutionInterceptor,
  SdkExecutionAttribute
}
import software.amazon.awssdk.http.SdkHttpRequest

/**
 * Adds headers for encryption and the payer to requests before they are signed. A customer's key is
 * sent with each request that reads or writes the bytes of an object, the name of another key with
 * those that create one.
 */
final private[objectstore] class AccessHeaders(encryption: Encryption, requesterPays: Boolean)
    extends ExecutionInterceptor {
  import AccessHeaders._

  override def modifyHttpRequest(
      context: Context.ModifyHttpRequest,
      attributes: ExecutionAttributes
  ): SdkHttpRequest = {
    val operation = attributes.getAttribute(SdkExecutionAttribute.OPERATION_NAME)
    val added = payer ++ ofEncryption(operation)
    if (added.isEmpty) context.httpRequest
    else {
      val request = context.httpRequest.toBuilder
      added.foreach { case (name, value) => request.putHeader(name, value) }
      request.build()
    }
  }

  private def payer = if (requesterPays) Seq("x-amz-request-payer" -> "requester") else Nil

  private def ofEncryption(operation: String): Seq[(String, String)] = encryption match {
    case customer: Encryption.Customer if Making(operation) || Touching(operation) =>
      Seq(
        s"$Prefix-customer-algorithm" -> customer.algorithm,
        s"$Prefix-customer-key" -> customer.base64,
        s"$Prefix-customer-key-MD5" -> customer.md5
      )
    case Encryption.OfStore if Making(operation)              => Seq(Prefix -> "AES256")
    case Encryption.Kms(key, isByBucket) if Making(operation) =>
      Seq(Prefix -> "aws:kms") ++ key.map(s"$Prefix-aws-kms-key-id" -> _) ++
        Option.when(isByBucket)(s"$Prefix-bucket-key-enabled" -> "true")
    case _ => Nil
  }
}

private object AccessHeaders {
  private val Prefix = "x-amz-server-side-encryption"
  private val Making = Set("PutObject", "CreateMultipartUpload")
  private val Touching =
    Set("GetObject", "HeadObject", "UploadPart", "CompleteMultipartUpload")
}
