package io.cleancut.objectstore

import java.nio.file.Files
import java.security.MessageDigest
import java.util.Base64

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.http.SdkHttpRequest

import io.cleancut.base.Clock
import io.cleancut.conf.{Keys, ObjectStoreSettings, Settings}
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.s3.{RenewedCredentials, RetryPolicy, S3Connection, S3Store}
import io.cleancut.testkit.TestDirectory

/** The headers of requests to a bucket, by configuration key. */
class AccessSuite extends AnyFunSuite {
  private val http = new RecordingHttp
  private val key = ObjectKey("a")
  private val part = new Array[Byte](MultipartUpload.MinPartBytes)

  private def settings(confs: (Key, String)*): ObjectStoreSettings =
    Settings
      .from((confs :+ (Keys.S3Region -> "eu-west-1")).map { case (k, v) => k.name -> v }.toMap)
      .objectStore

  private type Key = io.cleancut.conf.Key[_]

  private def opened(confs: (Key, String)*): S3Store = {
    val connection = S3Connection.of(settings(confs: _*), Map.empty)
    val credentials = RenewedCredentials.ofDefaultChain(Clock.System)
    new S3Store(
      BucketPath.parse("s3://bucket/q"),
      connection,
      RetryPolicy(5000),
      Clock.System,
      credentials,
      connection.client("s3://bucket/q", credentials, http)
    )
  }

  /** All kinds of requests of a store, by name. */
  private def requestsOf(confs: (Key, String)*): Map[String, SdkHttpRequest] = {
    val store = opened(confs: _*)
    def one(name: String)(call: => Any): (String, SdkHttpRequest) = {
      http.requests()
      call
      name -> http.requests().head
    }
    var upload: MultipartUpload = null
    def token = WriterToken.fresh(Clock.System)
    try
      Seq(
        one("put")(store.put(key, Array(1))),
        one("create")(store.create(key, Array(1), token)),
        one("get")(store.get(key)),
        one("head")(store.head(key)),
        one("list")(store.list(ObjectPrefix.All).foreach(identity)),
        one("delete")(store.delete(Seq(key))),
        one("start") { upload = store.upload(key, part.length, token) },
        one("part")(upload.part(1, part)),
        one("complete")(upload.complete()),
        one("uploads")(store.dropUnfinished(0L)),
        one("abort")(store.abort(key, "u"))
      ).toMap
    finally store.close()
  }

  private def header(request: SdkHttpRequest, name: String): Option[String] =
    Option(request.firstMatchingHeader(name).orElse(null))

  private def values(requests: Map[String, SdkHttpRequest], name: String): Map[String, String] =
    requests.flatMap { case (request, sent) => header(sent, name).map(request -> _) }

  private val creating = Set("put", "create", "start")
  private val accessing = creating ++ Set("get", "head", "part", "complete")
  private val encryption = "x-amz-server-side-encryption"

  private def all(requests: Set[String], value: String) = requests.map(_ -> value).toMap

  test("requests have no headers for keys that are not set") {
    for ((name, request) <- requestsOf(); header <- request.headers.keySet.asScala) {
      assert(!header.toLowerCase.startsWith(encryption), name)
      assert(!header.toLowerCase.startsWith("x-amz-request-payer"), name)
    }
  }

  test("encryption with a key of the store is requested for each new object") {
    val sent = requestsOf(Keys.S3Encryption -> "s3")
    assert(values(sent, encryption) == all(creating, "AES256"))
  }

  test("encryption with a KMS key is requested for each new object") {
    val default = requestsOf(Keys.S3Encryption -> "kms")
    assert(values(default, encryption) == all(creating, "aws:kms"))
    assert(values(default, s"$encryption-aws-kms-key-id").isEmpty)
    val arn = "arn:aws:kms:eu-west-1:123456789012:key/1-2"
    val other = requestsOf(Keys.S3Encryption -> s"kms:$arn")
    assert(values(other, s"$encryption-aws-kms-key-id") == all(creating, arn))
    assert(values(other, s"$encryption-bucket-key-enabled").isEmpty)
    val cheap = requestsOf(Keys.S3Encryption -> s"kms-bucket-key:$arn")
    assert(values(cheap, s"$encryption-aws-kms-key-id") == all(creating, arn))
    assert(values(cheap, s"$encryption-bucket-key-enabled") == all(creating, "true"))
  }

  private def withKey[A](bytes: Array[Byte])(body: String => A): A =
    TestDirectory.use("key") { directory =>
      val file = directory.resolve("key")
      Files.writeString(file, Base64.getEncoder.encodeToString(bytes) + "\n")
      body(s"customer:$file")
    }

  test("a customer's key is sent only with requests that access the bytes of an object") {
    val bytes = Array.tabulate[Byte](32)(_.toByte)
    withKey(bytes) { text =>
      val sent = requestsOf(Keys.S3Encryption -> text)
      val base64 = Base64.getEncoder.encodeToString(bytes)
      val md5 = MessageDigest.getInstance("MD5").digest(bytes)
      assert(values(sent, s"$encryption-customer-algorithm") == all(accessing, "AES256"))
      assert(values(sent, s"$encryption-customer-key") == all(accessing, base64))
      val digest = Base64.getEncoder.encodeToString(md5)
      assert(values(sent, s"$encryption-customer-key-MD5") == all(accessing, digest))
      assert(values(sent, encryption).isEmpty)
      val shown = S3Connection.of(settings(Keys.S3Encryption -> text), Map.empty).toString
      assert(!shown.contains(base64) && !shown.contains(bytes.mkString(", ")))
    }
  }

  test("the error for a file without a key has its name, and not its content") {
    withKey("sixteen secrets!".getBytes) { text =>
      val thrown = intercept[CleancutException](opened(Keys.S3Encryption -> text))
      assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
      assert(thrown.getMessage.contains("16 bytes"))
      assert(!thrown.getMessage.contains("sixteen") && !thrown.getMessage.contains("c2l4"))
    }
    val thrown = intercept[CleancutException](opened(Keys.S3Encryption -> "customer:/nowhere/key"))
    assert(thrown.getMessage.contains("/nowhere/key"))
  }

  test("all requests name the payer") {
    val sent = requestsOf(Keys.S3RequesterPays -> "true")
    assert(values(sent, "x-amz-request-payer") == all(sent.keySet, "requester"))
  }

  test("requests go to the access point instead of the bucket") {
    val arn = "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine"
    for ((name, request) <- requestsOf(Keys.S3AccessPoint -> arn)) {
      assert(request.host == "mine-123456789012.s3-accesspoint.eu-west-1.amazonaws.com", name)
      assert(!request.encodedPath.contains("bucket"), name)
    }
    for ((name, request) <- requestsOf())
      assert(request.host == "bucket.s3.eu-west-1.amazonaws.com", name)
  }

  test("the pool has the configured number of connections") {
    assert(S3Connection.of(settings(), Map.empty).maxConnections == 64)
    assert(
      S3Connection.of(settings(Keys.S3MaxConnections -> "500"), Map.empty).maxConnections == 500
    )
  }
}
