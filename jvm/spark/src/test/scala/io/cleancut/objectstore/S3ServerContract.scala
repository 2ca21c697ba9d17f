package io.cleancut.objectstore

import java.util.concurrent.atomic.AtomicInteger

import software.amazon.awssdk.core.sync.RequestBody
import software.amazon.awssdk.services.s3.model.PutObjectRequest

import io.cleancut.base.Clock
import io.cleancut.objectstore.s3.{Dialect, RetryPolicy}
import io.cleancut.testkit.S3Server

/** The S3 client on a server, with one dialect. */
abstract class S3ServerContract(dialect: Dialect) extends ObjectStoreContract {
  private var server: S3Server = _
  private val opened = new AtomicInteger

  protected def start(): S3Server

  protected def policy: RetryPolicy = S3TestStore.Policy

  override protected def beforeAll(): Unit = server = start()

  override protected def afterAll(): Unit = server.close()

  override protected def keepsTokens: Boolean = true

  override protected def openEmpty(): ObjectStore = {
    opened.incrementAndGet()
    S3TestStore.open(server.endpoint, location, dialect, policy)
  }

  private def locationOf(name: String) = s"s3://${S3Server.Bucket}/run-${opened.get}/$name"

  private def location = locationOf("q")

  test("a listing of more than one page is complete") {
    val keys = Seq.tabulate(1001)(i => ObjectKey(f"many/$i%05d"))
    keys.foreach(store.put(_, Array.emptyByteArray))
    val before = store.counts
    assert(store.list(ObjectPrefix("many/")).map(_.key).toSet == keys.toSet)
    assert((store.counts - before)(RequestKind.ListPage).requests == 2)
    val level = store.listLevel(ObjectPrefix("many/")).collect { case Listed.Here(i) => i.key }
    assert(level.toSet == keys.toSet)
    assert((store.counts - before)(RequestKind.ListPage).requests == 4)
    // One page, whatever the number of objects at deeper levels.
    assert(store.listLevel(ObjectPrefix.All).toSeq == Seq(Listed.Below(ObjectPrefix("many/"))))
    assert((store.counts - before)(RequestKind.ListPage).requests == 5)
    store.delete(keys)
    assert((store.counts - before)(RequestKind.Delete).requests == 2)
    assert(store.list(ObjectPrefix.All).isEmpty)
  }

  test("requests are counted by user and in total") {
    val (one, other) = (store.counted, store.counted)
    val before = store.counts
    one.put(ObjectKey("a"), bytes("123"))
    one.get(ObjectKey("a"))
    other.get(ObjectKey("a"))
    assert(one.counts(RequestKind.Put) == KindCounts(1, 0, 0))
    assert((one.counts.requests, other.counts.requests) == ((2, 1)))
    assert((one.counts.bytesSent, one.counts.bytesReceived) == ((3, 3)))
    val both = store.counts - before
    assert(both.requests == 3 && both.bytesSent == 3 && both.bytesReceived == 6)
  }

  test("objects outside of the location are not listed") {
    val bucket = S3TestStore.open(server.endpoint, s"s3://${S3Server.Bucket}", dialect)
    try {
      store.put(ObjectKey("a"), bytes("x"))
      assert(bucket.list(ObjectPrefix.All).map(_.key.name).exists(_.endsWith("/q/a")))
      assert(store.list(ObjectPrefix.All).map(_.key.name).toSeq == Seq("a"))
    } finally bucket.close()
  }

  test("incomplete uploads outside of the location are not dropped") {
    val nowMs = Clock.System.wallMs()
    val others = Seq("a", "b").map { name =>
      val other = S3TestStore.open(server.endpoint, locationOf(name), dialect)
      other.upload(ObjectKey("x"), MultipartUpload.MinPartBytes, WriterToken.fresh(Clock.System))
      other
    }
    try {
      assert(store.dropUnfinished(nowMs + 3600 * 1000) == 0)
      assert(others.map(_.dropUnfinished(nowMs + 3600 * 1000)) == Seq(1, 1))
    } finally others.foreach(_.close())
  }

  test("directory objects of a web console are not listed") {
    store.put(ObjectKey("d/a"), bytes("x"))
    val client = S3TestStore.client(server.endpoint, dialect)
    def putAt(name: String) = client.putObject(
      PutObjectRequest
        .builder()
        .bucket(S3Server.Bucket)
        .key(s"${location.stripPrefix(s"s3://${S3Server.Bucket}/")}/$name")
        .build(),
      RequestBody.empty()
    )
    try {
      putAt("d/")
      putAt("d/with\ttab")
    } finally client.close()
    val level = store.listLevel(ObjectPrefix("d/")).toSet
    assert(level.collect { case Listed.Here(info) => info.key.name } == Set("d/a"))
    assert(level.collect { case Listed.Foreign(name) => name } == Set("d/with\ttab"))
    assert(store.list(ObjectPrefix("d/")).map(_.key.name).toSeq == Seq("d/a"))
  }

  test("a repeated create with the same token succeeds") {
    val token = WriterToken.fresh(Clock.System)
    val key = ObjectKey("a")
    assert(store.create(key, bytes("one"), token) == CreateResult.Created)
    // As after a lost response.
    assert(store.create(key, bytes("one"), token) == CreateResult.Created)
  }
}
