package io.cleancut.objectstore

import java.util.concurrent.ConcurrentHashMap

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.Clock
import io.cleancut.error.CleancutException
import io.cleancut.objectstore.s3.{RetryPolicy, S3Store}
import io.cleancut.testkit.{Fault, HttpMessage, ProxiedServer, S3ProxyServer, S3Server}

/** Unsafe stores, which a proxy simulates by changing requests and responses. */
class WriteProbeSuite extends AnyFunSuite with ProxiedServer with BeforeAndAfterEach {

  override protected def startServer(): S3Server = S3ProxyServer.start(checkSignatures = false)

  override protected def beforeEach(): Unit = proxy.reset()

  private def probed[A](store: S3Store => A): A = {
    val location = s"s3://${S3Server.Bucket}/probed"
    val opened = S3TestStore.open(endpoint, location, policy = RetryPolicy(5000))
    try store(opened)
    finally opened.close()
  }

  private def error(): CleancutException =
    probed(store => intercept[CleancutException](new WriteProbe(store, Clock.System).run()))

  private def isPut(request: HttpMessage): Boolean = request.method == "PUT"

  private def always(fault: Fault)(matching: HttpMessage => Boolean) =
    proxy.harm(fault, times = Int.MaxValue)(matching)

  private def leftovers: Seq[String] = {
    proxy.reset()
    probed(_.list(ObjectPrefix.All).map(_.key.name).toSeq)
  }

  test("a safe store passes, with about thirty requests and no remaining objects") {
    probed { store =>
      new WriteProbe(store, Clock.System).run()
      val alone = 11
      // In each race all writers but one request the owner, and the object is read once.
      val ofRaces = store.probeRaces * (4 + 3 + 1)
      assert(store.counts.requests - store.counts.retries == alone + ofRaces, store.counts)
    }
    assert(leftovers == Nil)
  }

  test(
    "a store that stores the framing of a body is refused, and the error names the key to change"
  ) {
    val framed = Fault.Change(request = { request =>
      val frame = s"${request.body.length.toHexString};chunk-signature=0\r\n".getBytes
      request.without("Content-MD5").withBody(frame ++ request.body)
    })
    always(framed)(isPut)
    val thrown = error()
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("stateStore.cleancut.s3.dialect"))
    assert(thrown.getMessage.contains("after a put of 150000 bytes"))
    assert(leftovers == Nil)
  }

  test("a store that ignores the condition of a create is refused") {
    val blind = always(Fault.Change(request = _.without("If-None-Match")))(isPut)
    val thrown = error()
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE" && blind.strikes >= 3)
    assert(thrown.getMessage.contains("two drivers could both commit"))
    assert(leftovers == Nil)
  }

  test("a store that does not return the metadata of an object is refused") {
    val withoutMetadata = Fault.Change(answer = _.without("x-amz-meta-cleancut-writer"))
    always(withoutMetadata)(_.method == "HEAD")
    val thrown = error()
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("metadata"))
    assert(leftovers == Nil)
  }

  test("a store that checks for an object before it writes is refused") {
    // The first two writers of an object find none, however late the second one is.
    val writers = new ConcurrentHashMap[String, Int]
    val late = Fault.Change(request = { request =>
      if (writers.merge(request.target, 1, _ + _) <= 2) request.without("If-None-Match")
      else request
    })
    always(late)(request => isPut(request) && request.target.contains("/race-"))
    val thrown = error()
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("writers create one object at the same time"))
    assert(leftovers == Nil)
  }

  test("a store that returns the complete object for a range is refused") {
    always(Fault.Change(request = _.without("Range")))(_.header("Range").nonEmpty)
    val thrown = error()
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
    assert(thrown.getMessage.contains("the range"))
    assert(leftovers == Nil)
  }

  test("an eventually consistent listing is refused") {
    val empty = Fault.Change(answer = { answer =>
      val xml = new String(answer.body).replaceAll("(?s)<Contents>.*</Contents>", "")
      answer.withBody(xml.getBytes)
    })
    always(empty)(_.target.contains("list-type=2"))
    val thrown = error()
    assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_UNSAFE")
    assert(thrown.getMessage.contains("0 of 2 objects"))
  }

  test("the error for a missing bucket names it") {
    val store = S3TestStore.open(proxy.endpoint, "s3://nowhere/q", policy = RetryPolicy(5000))
    try {
      val thrown = intercept[CleancutException](new WriteProbe(store, Clock.System).run())
      assert(thrown.errorId == "CLEANCUT_OBJECT_STORE_REFUSED")
      assert(thrown.getMessage.contains("NoSuchBucket"))
      assert(thrown.getMessage.contains("s3://nowhere/q/"))
    } finally store.close()
  }
}
