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

/** What requests to a bucket say, header by header, by the keys that have them say it. */
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

  /** All that a store ever asks, by its name in the words of S3. */
  private def asked(confs: (Key, String)*): Map[String, SdkHttpRequest] = {
    val store = opened(confs: _*)
    def one(name: String)(act: => Any): (String, SdkHttpRequest) = {
      http.requests()
      act
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

  private def saying(asked: Map[String, SdkHttpRequest], name: String): Map[String, String] =
    asked.flatMap { case (request, sent) => header(sent, name).map(request -> _) }

  private val makers = Set("put", "create", "start")
  private val touchers = makers ++ Set("get", "head", "part", "complete")
  private val encryption = "x-amz-server-side-encryption"

  private def all(requests: Set[String], value: String) = requests.map(_ -> value).toMap

  test("nothing is said of what is not set") {
    for ((name, request) <- asked(); header <- request.headers.keySet.asScala) {
      assert(!header.toLowerCase.startsWith(encryption), name)
      assert(!header.toLowerCase.startsWith("x-amz-request-payer"), name)
    }
  }

  test("a key of the store's own goes with what makes an object") {
    val sent = asked(Keys.S3Encryption -> "s3")
    assert(saying(sent, encryption) == all(makers, "AES256"))
  }

  test("a key of a key management service goes with what makes an object") {
    val own = asked(Keys.S3Encryption -> "kms")
    assert(saying(own, encryption) == all(makers, "aws:kms"))
    assert(saying(own, s"$encryption-aws-kms-key-id").isEmpty)
    val arn = "arn:aws:kms:eu-west-1:123456789012:key/1-2"
    val other = asked(Keys.S3Encryption -> s"kms:$arn")
    assert(saying(other, s"$encryption-aws-kms-key-id") == all(makers, arn))
    assert(saying(other, s"$encryption-bucket-key-enabled").isEmpty)
    val cheap = asked(Keys.S3Encryption -> s"kms-bucket-key:$arn")
    assert(saying(cheap, s"$encryption-aws-kms-key-id") == all(makers, arn))
    assert(saying(cheap, s"$encryption-bucket-key-enabled") == all(makers, "true"))
  }

  private def withKey[A](bytes: Array[Byte])(body: String => A): A =
    TestDirectory.use("key") { directory =>
      val file = directory.resolve("key")
      Files.writeString(file, Base64.getEncoder.encodeToString(bytes) + "\n")
      body(s"customer:$file")
    }

  test("a customer's key goes with all that touches the bytes of an object, and nowhere else") {
    val bytes = Array.tabulate[Byte](32)(_.toByte)
    withKey(bytes) { text =>
      val sent = asked(Keys.S3Encryption -> text)
      val base64 = Base64.getEncoder.encodeToString(bytes)
      val md5 = MessageDigest.getInstance("MD5").digest(bytes)
      assert(saying(sent, s"$encryption-customer-algorithm") == all(touchers, "AES256"))
      assert(saying(sent, s"$encryption-customer-key") == all(touchers, base64))
      val digest = Base64.getEncoder.encodeToString(md5)
      assert(saying(sent, s"$encryption-customer-key-MD5") == all(touchers, digest))
      assert(saying(sent, encryption).isEmpty)
      val shown = S3Connection.of(settings(Keys.S3Encryption -> text), Map.empty).toString
      assert(!shown.contains(base64) && !shown.contains(bytes.mkString(", ")))
    }
  }

  test("a file that holds no key is named, without what it holds") {
    withKey("sixteen secrets!".getBytes) { text =>
      val thrown = intercept[CleancutException](opened(Keys.S3Encryption -> text))
      assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
      assert(thrown.getMessage.contains("16 bytes"))
      assert(!thrown.getMessage.contains("sixteen") && !thrown.getMessage.contains("c2l4"))
    }
    val thrown = intercept[CleancutException](opened(Keys.S3Encryption -> "customer:/nowhere/key"))
    assert(thrown.getMessage.contains("/nowhere/key"))
  }

  test("who pays goes with every request") {
    val sent = asked(Keys.S3RequesterPays -> "true")
    assert(saying(sent, "x-amz-request-payer") == all(sent.keySet, "requester"))
  }

  test("an access point is asked in place of the bucket") {
    val arn = "arn:aws:s3:eu-west-1:123456789012:accesspoint/mine"
    for ((name, request) <- asked(Keys.S3AccessPoint -> arn)) {
      assert(request.host == "mine-123456789012.s3-accesspoint.eu-west-1.amazonaws.com", name)
      assert(!request.encodedPath.contains("bucket"), name)
    }
    for ((name, request) <- asked())
      assert(request.host == "bucket.s3.eu-west-1.amazonaws.com", name)
  }

  test("the pool has as many connections as are asked for") {
    assert(S3Connection.of(settings(), Map.empty).maxConnections == 64)
    assert(
      S3Connection.of(settings(Keys.S3MaxConnections -> "500"), Map.empty).maxConnections == 500
    )
  }
}
