package io.cleancut.objectstore

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.atomic.AtomicInteger

import scala.collection.mutable

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite
import software.amazon.awssdk.auth.credentials.{AwsBasicCredentials, AwsCredentialsProvider}
import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model.{CopyObjectRequest, PutObjectRequest}

import io.cleancut.base.Clock
import io.cleancut.error.{CleancutException, ErrorKind}
import io.cleancut.objectstore.s3.{Dialect, RenewedCredentials, RetryPolicy, S3Store}
import io.cleancut.testkit.{Fault, HttpMessage, ProxiedServer, R2Rules, S3Server}

/**
 * The S3 client with a proxy that loses, delays and changes requests and responses.
 */
class S3FaultsSuite extends AnyFunSuite with ProxiedServer with BeforeAndAfterEach {
  private var store: S3Store = _
  private val runs = new AtomicInteger

  override protected def beforeEach(): Unit = {
    proxy.reset()
    runs.incrementAndGet()
    store = opened()
  }

  override protected def afterEach(): Unit = store.close()

  private def opened(
      policy: RetryPolicy = S3TestStore.Policy.copy(firstPauseMs = 5),
      stallMs: Long = 20000
  ): S3Store = {
    val location = s"s3://${S3Server.Bucket}/faults-${runs.get}"
    S3TestStore.open(endpoint, location, policy = policy, stallMs = stallMs)
  }

  private def bytes(text: String) = text.getBytes(UTF_8)

  private def isPut(request: HttpMessage): Boolean = request.method == "PUT"

  private def isGet(request: HttpMessage): Boolean = request.method == "GET"

  private def fresh() = WriterToken.fresh(Clock.System)

  private val key = ObjectKey("a")

  private def textOf(key: ObjectKey) = store.get(key).map(new String(_, UTF_8))

  private def create(body: String) = store.create(key, bytes(body), fresh())

  // Faults before the effect, after it, and with a response that does not show which.
  private val losses = Seq(
    "lost before it took effect" -> Fault.DropRequest,
    "lost after it took effect" -> Fault.DropAnswer,
    "answered with 500 before it took effect" -> Fault.Answer(500, "InternalError"),
    "answered with 500 after it took effect" -> Fault.AnswerAfter(500, "InternalError"),
    "answered with 503 before it took effect" -> Fault.Answer(503, "SlowDown"),
    "answered with 503 after it took effect" -> Fault.AnswerAfter(503, "SlowDown"),
    "answered with 429" -> Fault.Answer(429, "TooManyRequests"),
    "answered with a conflict" -> Fault.Answer(409, "ConditionalRequestConflict"),
    "answered that its body was changed in transit" -> Fault.Answer(400, "BadDigest")
  )

  losses.foreach { case (loss, fault) =>
    test(s"a create $loss succeeds") {
      val harm = proxy.harm(fault, times = 2)(isPut)
      assert(create("one") == CreateResult.Created)
      assert(harm.strikes == 2 && textOf(key).contains("one"))
      assert(store.counts(RequestKind.Create) == KindCounts(3, 2, 0))
    }

    test(s"a create $loss does not replace an earlier object") {
      val first = fresh()
      store.create(key, bytes("one"), first)
      val harm = proxy.harm(fault)(isPut)
      assert(create("two") == CreateResult.Exists(Some(first)))
      assert(harm.strikes == 1 && textOf(key).contains("one"))
    }

    test(s"a put $loss is repeated") {
      val harm = proxy.harm(fault, times = 2)(isPut)
      store.put(key, bytes("one"))
      assert(harm.strikes == 2 && textOf(key).contains("one"))
    }

    test(s"a part $loss is sent again, and the completion of the upload is resolved") {
      val part = Clock.System.randomBytes(MultipartUpload.MinPartBytes)
      val harm = proxy.harm(fault)(isPut)
      val completion = proxy.harm(fault)(r => r.method == "POST" && r.target.contains("uploadId"))
      val upload = store.upload(key, part.length, fresh())
      upload.part(1, part)
      upload.part(2, bytes("last"))
      upload.complete()
      assert(harm.strikes == 1 && completion.strikes == 1)
      assert(store.get(key).exists(java.util.Arrays.equals(_, part ++ bytes("last"))))
    }
  }

  for (code <- Seq("ExpiredToken", "RequestExpired", "TokenRefreshRequired"))
    test(s"after $code the credentials are renewed") {
      val harm = proxy.harm(Fault.Answer(400, code), times = 2)(isPut)
      assert(create("one") == CreateResult.Created)
      assert(harm.strikes == 2 && textOf(key).contains("one"))
    }

  test("expired credentials are distinguished from a bad request if the response has no code") {
    store.put(key, bytes("one"))
    val location = s"s3://${S3Server.Bucket}/faults-${runs.get}"
    val connection = S3TestStore.connection(endpoint, Dialect.Generic)
    def sources(secrets: String*): () => AwsCredentialsProvider = {
      val left = mutable.Queue(secrets: _*)
      () => {
        val credentials = AwsBasicCredentials.create("access", left.dequeue())
        () => credentials
      }
    }
    def headed(secrets: String*): Option[ObjectInfo] = {
      val credentials = new RenewedCredentials(sources(secrets: _*), Clock.System)
      val policy = RetryPolicy(10000, firstPauseMs = 5)
      val path = BucketPath.parse(location)
      val opened = new S3Store(path, connection, policy, Clock.System, credentials)
      val mute = Fault.Answer(400, "")
      proxy.harm(mute)(_.method == "HEAD")
      try opened.head(key)
      finally opened.close()
    }
    assert(headed("expired", "secret").map(_.sizeBytes).contains(3L))
    val thrown = intercept[CleancutException](headed("secret", "secret"))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
  }

  test("a create that is refused because of its own duplicate in transit succeeds") {
    // The proxy sends the request twice, and the client does not know it.
    val twice = Fault.Change(request = { request =>
      val other = opened()
      try {
        val token = request.header("x-amz-meta-cleancut-writer").get
        other.create(key, request.body, WriterToken(token))
      } finally other.close()
      request
    })
    val harm = proxy.harm(twice)(isPut)
    assert(create("one") == CreateResult.Created)
    assert(harm.strikes == 1 && store.counts(RequestKind.Create).retries == 0)
  }

  Seq(0, 1, 99999).foreach { cut =>
    test(s"a response that ends after $cut of 100000 bytes is requested again") {
      val body = Clock.System.randomBytes(100000)
      store.put(key, body)
      val harm = proxy.harm(Fault.CutBody(cut), times = 2)(isGet)
      assert(store.get(key).exists(java.util.Arrays.equals(_, body)))
      assert(harm.strikes == 2 && store.counts(RequestKind.Get) == KindCounts(3, 2, 0))
    }
  }

  test("a truncated range is requested again") {
    store.put(key, bytes("0123456789"))
    val harm = proxy.harm(Fault.CutBody(2))(isGet)
    val RangeResult.Found(part) = store.getRange(key, 3, 4): @unchecked
    assert(harm.strikes == 1 && new String(part, UTF_8) == "3456")
  }

  test("a body with a bit flipped in transit is requested again") {
    store.put(key, bytes("0123456789"))
    for (at <- Seq(0.0, 0.5, 1.0)) {
      val harm = proxy.harm(Fault.FlipBody(at), times = 2)(isGet)
      assert(textOf(key).contains("0123456789") && harm.strikes == 2)
      val again = proxy.harm(Fault.FlipBody(at), times = 2)(isGet)
      val piece = store.getPiece(key, 0L, 100).get
      assert(new String(piece.bytes, UTF_8) == "0123456789" && again.strikes == 2)
    }
  }

  test("an object that is changed in the store is corrupted, and the error names it") {
    create("one")
    val harm = proxy.harm(Fault.FlipBody(0), times = Int.MaxValue)(isGet)
    val thrown = intercept[CleancutException](store.get(key))
    assert(thrown.errorId == "CLEANCUT_CUT_CORRUPTED" && harm.strikes == 3)
    assert(thrown.getMessage.contains(s"/$key"))
  }

  /** Copies an object with its metadata to another key. */
  private def copy(from: ObjectKey, to: ObjectKey, ofStore: S3Store = store): Unit = {
    val client = S3TestStore.client(endpoint, Dialect.Generic)
    def nameOf(key: ObjectKey) =
      BucketPath.parse(ofStore.location).fullName(key)
    try {
      client.copyObject(
        CopyObjectRequest
          .builder()
          .sourceBucket(S3Server.Bucket)
          .sourceKey(BucketPath.parse(store.location).fullName(from))
          .destinationBucket(S3Server.Bucket)
          .destinationKey(nameOf(to))
          .build()
      )
      ()
    } finally client.close()
  }

  test("two exchanged objects of Spark are corrupted, and the errors name them") {
    val places = Seq(
      "offsets/7" -> "offsets/8",
      "commits/7" -> "offsets/7",
      "sources/0/7" -> "sources/0/8",
      "sources/0/7" -> "sources/1/7",
      "state/0/_metadata/metadata" -> "state/1/_metadata/metadata",
      "state/0/0/_metadata/schema" -> "state/0/0/left/_metadata/schema"
    )
    for ((one, other) <- places; isWhole <- Seq(true, false)) {
      store.put(ObjectKey(one), bytes("one"))
      copy(ObjectKey(one), ObjectKey(other))
      val thrown = intercept[CleancutException] {
        if (isWhole) store.get(ObjectKey(other)) else store.getPiece(ObjectKey(other), 0L, 2)
      }
      assert(thrown.errorId == "CLEANCUT_CUT_CORRUPTED")
      assert(thrown.getMessage.contains(s"/$other") && thrown.getMessage.contains(s"as $one"))
    }
  }

  test("an object that was uploaded in parts is bound to its location") {
    val large =
      store.upload(ObjectKey("sources/0/9.compact"), MultipartUpload.MinPartBytes, fresh())
    large.part(1, bytes("all"))
    large.complete()
    copy(ObjectKey("sources/0/9.compact"), ObjectKey("sources/0/19.compact"))
    val thrown = intercept[CleancutException](store.get(ObjectKey("sources/0/19.compact")))
    assert(thrown.getMessage.contains("as sources/0/9.compact"))
  }

  test("a copy of a checkpoint below another prefix is readable") {
    val there = S3TestStore.open(endpoint, s"s3://${S3Server.Bucket}/state/0/copy-${runs.get}")
    try
      for (name <- Seq("metadata", "offsets/7", "sources/0/7", "state/0/_metadata/metadata")) {
        store.put(ObjectKey(name), bytes(name))
        copy(ObjectKey(name), ObjectKey(name), there)
        assert(there.get(ObjectKey(name)).map(new String(_, UTF_8)).contains(name))
      }
    finally there.close()
  }

  test("an object without a recorded location is readable") {
    val client = S3TestStore.client(endpoint, Dialect.Generic)
    try
      client.putObject(
        PutObjectRequest
          .builder()
          .bucket(S3Server.Bucket)
          .key(BucketPath.parse(store.location).fullName(ObjectKey("offsets/7")))
          .build(),
        RequestBody.fromString("v1")
      )
    finally client.close()
    assert(textOf(ObjectKey("offsets/7")).contains("v1"))
  }

  test("a store that returns the complete object for a range is refused") {
    store.put(key, bytes("0123456789"))
    val whole = Fault.Change(answer = _.without("Content-Range").copy(first = "HTTP/1.1 200 OK"))
    proxy.harm(whole)(isGet)
    val thrown = intercept[CleancutException](store.getRange(key, 0, 10))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
  }

  test("a response that stalls ends at the stall limit and is requested again") {
    store.put(key, bytes("0123456789"))
    val impatient = opened(stallMs = 300)
    try {
      val harm = proxy.harm(Fault.StallBody(5))(isGet)
      val startMs = Clock.System.wallMs()
      assert(impatient.get(key).map(new String(_, UTF_8)).contains("0123456789"))
      assert(harm.strikes == 1 && Clock.System.wallMs() - startMs < 10000)
    } finally impatient.close()
  }

  test("a delayed response is awaited") {
    val harm = proxy.harm(Fault.Delay(1000))(isPut)
    store.put(key, bytes("one"))
    assert(harm.strikes == 1 && store.counts.retries == 0)
  }

  test("an unavailable store is retried until the deadline") {
    val patient = opened(RetryPolicy(deadlineMs = 3000, firstPauseMs = 20, maxPauseMs = 500))
    try {
      val harm = proxy.harm(Fault.Answer(503, "SlowDown"), times = Int.MaxValue)(_ => true)
      val startNs = Clock.System.monotonicNs()
      val thrown = intercept[CleancutException](patient.put(key, bytes("one")))
      val waitedMs = (Clock.System.monotonicNs() - startNs) / 1000000
      assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNAVAILABLE")
      assert(thrown.kind == ErrorKind.Retry && thrown.getMessage.contains("requestTimeout"))
      assert(waitedMs >= 2000, s"$waitedMs ms")
      // Pauses of at least 200 ms leave room for few attempts, and a busy machine for one.
      assert(harm.strikes >= 1 && harm.strikes <= 15, s"${harm.strikes} attempts")
      val counted = patient.counts(RequestKind.Put)
      // The deadline may end the last attempt in transit, before it reaches the proxy.
      assert(counted == KindCounts(counted.requests, counted.requests - 1, 1))
      assert((counted.requests - harm.strikes).abs <= 1, s"$counted, ${harm.strikes} attempts")
    } finally patient.close()
  }

  test("a store that recovers before the deadline is used again") {
    val harm = proxy.harm(Fault.DropRequest, times = 8)(_ => true)
    store.put(key, bytes("one"))
    assert(harm.strikes == 8 && textOf(key).contains("one"))
  }

  test("the pause that the store requests is observed") {
    proxy.harm(Fault.Answer(503, "SlowDown", Seq("Retry-After: 1")))(isPut)
    val startNs = Clock.System.monotonicNs()
    store.put(key, bytes("one"))
    assert(Clock.System.monotonicNs() - startNs >= 1000000000L)
  }

  test("a permanent error is not retried") {
    val harm = proxy.harm(Fault.Answer(403, "AccessDenied"), times = 5)(_ => true)
    val thrown = intercept[CleancutException](store.put(key, bytes("one")))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED" && harm.strikes == 1)
    assert(thrown.kind == ErrorKind.FixRequest && thrown.getMessage.contains("AccessDenied (403)"))
    assert(store.counts(RequestKind.Put) == KindCounts(1, 0, 1))
  }

  test("an unsupported request is not retried, although its status is a server error") {
    val harm = proxy.harm(Fault.Answer(501, "NotImplemented"), times = 5)(_ => true)
    val thrown = intercept[CleancutException](store.dropUnfinished(0L))
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED" && harm.strikes == 1)
  }

  test("an interrupt ends the wait between attempts") {
    proxy.harm(Fault.Answer(503, "SlowDown"), times = Int.MaxValue)(_ => true)
    val caller = Thread.currentThread()
    val interrupter = new Thread(() => {
      Thread.sleep(1000)
      caller.interrupt()
    })
    interrupter.start()
    intercept[InterruptedException](store.put(key, bytes("one")))
    interrupter.join()
    assert(!Thread.interrupted())
  }

  test("an interrupt ends the wait for a response") {
    store.close()
    store = opened(stallMs = 1500)
    proxy.harm(Fault.Delay(20000))(_ => true)
    val caller = Thread.currentThread()
    val interrupter = new Thread(() => {
      Thread.sleep(1000)
      caller.interrupt()
    })
    interrupter.start()
    intercept[InterruptedException](store.put(key, bytes("one")))
    interrupter.join()
    assert(!Thread.interrupted())
  }

  test("an interrupt ends the read of a response's body") {
    // Larger than the buffers of a connection, so that the client has begun to read it.
    val (size, afterBytes) = (32 << 20, 24 << 20)
    store.put(key, Clock.System.randomBytes(size))
    val caller = Thread.currentThread()
    val reads = Seq[() => Any](
      () => store.get(key),
      () => store.getRange(key, 0, size),
      () => store.getPiece(key, 0, size)
    )
    for (read <- reads) {
      val harm = proxy.harm(Fault.PauseBody(afterBytes, () => caller.interrupt()))(isGet)
      intercept[InterruptedException](read())
      assert(harm.strikes == 1 && !Thread.interrupted())
    }
  }

  test("a key that is written too often for R2 is written later, and all parts have one size") {
    val rules = new R2Rules(Clock.System)
    proxy.enforce(rules)
    for (text <- Seq("one", "two", "three")) store.put(key, bytes(text))
    assert(textOf(key).contains("three") && rules.tooFast.size >= 2 && rules.writes == 3)
    assert(create("four").isInstanceOf[CreateResult.Exists])
    val part = Clock.System.randomBytes(MultipartUpload.MinPartBytes)
    val upload = store.upload(ObjectKey("b"), part.length, fresh())
    for (number <- 1 to 2) upload.part(number, part)
    upload.part(3, bytes("last"))
    upload.complete()
    assert(store.head(ObjectKey("b")).nonEmpty && rules.unequal == 0)
  }

  test("the rules refuse parts of different sizes as R2 does") {
    val rules = new R2Rules(Clock.System)
    for ((number, size) <- Seq(1 -> 10, 3 -> 7, 2 -> 11)) {
      val first = s"PUT /bucket/x?partNumber=$number&uploadId=u HTTP/1.1"
      assert(rules(HttpMessage(first, Nil, new Array[Byte](size))).isEmpty)
    }
    val complete = HttpMessage("POST /bucket/x?uploadId=u HTTP/1.1", Nil, Array.emptyByteArray)
    assert(rules(complete).contains(Fault.Answer(400, "InvalidPart")) && rules.unequal == 1)
  }

  test("all requests are supported by R2") {
    val upload = store.upload(key, MultipartUpload.MinPartBytes, fresh())
    upload.part(1, new Array[Byte](MultipartUpload.MinPartBytes))
    upload.complete()
    new WriteProbe(store, Clock.System).run()
    val sent = proxy.requests
    assert(sent.size > 10)
    for (request <- sent) {
      assert(!request.header("Content-Encoding").exists(_.contains("aws-chunked")), request.first)
      assert(!request.header("x-amz-content-sha256").exists(_.startsWith("STREAMING")))
      assert(request.header("Expect").isEmpty && request.header("Transfer-Encoding").isEmpty)
      // For a bulk deletion the SDK sends a CRC-32 in addition to Content-MD5, which R2 accepts.
      val isDelete = request.target.endsWith("?delete")
      val checks = request.headers.map(_._1.toLowerCase).filter(_.startsWith("x-amz-checksum"))
      assert(isDelete || checks.isEmpty, s"${request.first}: $checks")
      if (isDelete || request.method == "PUT")
        assert(request.header("Content-MD5").nonEmpty, request.first)
    }
  }
}
