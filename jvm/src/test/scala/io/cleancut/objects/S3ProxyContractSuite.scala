package io.cleancut.objects

import java.util.concurrent.atomic.AtomicInteger

import io.cleancut.Clock
import io.cleancut.testkit.S3ProxyServer

/** The S3 client on s3proxy, in the words of one dialect. */
abstract class S3ProxyContract(dialect: Dialect) extends ObjectStoreContract {
  private var server: S3ProxyServer = _
  private val opened = new AtomicInteger

  override protected def beforeAll(): Unit = server = S3ProxyServer.start()

  override protected def afterAll(): Unit = server.close()

  override protected def keepsTokens: Boolean = true

  override protected def openEmpty(): ObjectStore = {
    val location = s"s3://${S3ProxyServer.Bucket}/run-${opened.incrementAndGet()}/q"
    S3TestStore.open(server.endpoint, location, dialect)
  }

  test("a listing of more than one page is complete") {
    val keys = Seq.tabulate(1001)(i => ObjectKey(f"many/$i%05d"))
    keys.foreach(store.put(_, Array.emptyByteArray))
    val before = store.counts
    assert(store.list(ObjectPrefix("many/")).map(_.key).toSet == keys.toSet)
    assert((store.counts - before)(RequestKind.ListPage).requests == 2)
    store.delete(keys)
    assert((store.counts - before)(RequestKind.Delete).requests == 2)
    assert(store.list(ObjectPrefix.All).isEmpty)
  }

  test("objects of others beside ours are not listed") {
    val bucket = S3TestStore.open(server.endpoint, s"s3://${S3ProxyServer.Bucket}", dialect)
    try {
      store.put(ObjectKey("a"), bytes("x"))
      assert(bucket.list(ObjectPrefix.All).map(_.key.name).exists(_.endsWith("/q/a")))
      assert(store.list(ObjectPrefix.All).map(_.key.name).toSeq == Seq("a"))
    } finally bucket.close()
  }

  test("a token of one's own decides whose an object is") {
    val token = WriterToken.fresh(Clock.System)
    val key = ObjectKey("a")
    assert(store.create(key, bytes("one"), token) == CreateResult.Created)
    // As when the answer to the first was lost and the process asked again.
    assert(store.create(key, bytes("one"), token) == CreateResult.Created)
  }
}

class S3ProxyGenericSuite extends S3ProxyContract(Dialect.Generic)

class S3ProxyAwsSuite extends S3ProxyContract(Dialect.Aws)
