package io.cleancut.objectstore

import java.nio.charset.StandardCharsets.UTF_8
import java.util.concurrent.{CyclicBarrier, Executors}

import scala.concurrent.duration.DurationLong
import scala.concurrent.{Await, ExecutionContext, Future}

import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach}

import io.cleancut.base.Clock
import io.cleancut.testkit.Patience

/** The contract of [[ObjectStore]], for each implementation and each server. */
abstract class ObjectStoreContract
    extends AnyFunSuite
    with BeforeAndAfterAll
    with BeforeAndAfterEach {

  /** An empty store that no other test uses. */
  protected def openEmpty(): ObjectStore

  /** Whether the store returns the writer of an object. */
  protected def keepsTokens: Boolean

  /** Whether the store lists incomplete uploads. */
  protected def listsUploads: Boolean = true

  protected var store: ObjectStore = _

  override protected def beforeEach(): Unit = store = openEmpty()

  override protected def afterEach(): Unit = store.close()

  protected def bytes(text: String): Array[Byte] = text.getBytes(UTF_8)

  private def text(key: String): Option[String] =
    store.get(ObjectKey(key)).map(new String(_, UTF_8))

  private def put(key: String, body: String): Unit = store.put(ObjectKey(key), bytes(body))

  private def fresh(): WriterToken = WriterToken.fresh(Clock.System)

  private def listed(prefix: String): Seq[String] =
    store.list(ObjectPrefix(prefix)).map(_.key.name).toSeq.sorted

  test("a put object is read back") {
    put("a/b", "one")
    assert(text("a/b").contains("one"))
    assert(store.get(ObjectKey("a/c")).isEmpty)
  }

  test("a put replaces an object") {
    put("a", "one")
    put("a", "two")
    assert(text("a").contains("two"))
  }

  test("a piece has the available bytes and the size of the object") {
    put("a/b", "0123456789")
    def piece(offset: Long, maxLength: Int) =
      store.getPiece(ObjectKey("a/b"), offset, maxLength).map { piece =>
        (piece.offset, new String(piece.bytes, UTF_8), piece.objectBytes)
      }
    assert(piece(0, 4).contains((0L, "0123", 10L)))
    assert(piece(4, 6).contains((4L, "456789", 10L)))
    assert(piece(8, 1000).contains((8L, "89", 10L)))
    assert(store.getPiece(ObjectKey("a/c"), 0, 4).isEmpty)
    put("none", "")
    assert(store.getPiece(ObjectKey("none"), 0, 4).exists(p => p.objectBytes == 0))
  }

  test("an object may be empty") {
    put("none", "")
    assert(text("none").contains(""))
    assert(store.head(ObjectKey("none")).map(_.sizeBytes).contains(0L))
    assert(store.create(ObjectKey("empty"), Array.empty, fresh()) == CreateResult.Created)
    assert(text("empty").contains(""))
  }

  test("a body of many chunks is read back completely") {
    val body = Clock.System.randomBytes(3 << 20)
    store.put(ObjectKey("big"), body)
    assert(store.get(ObjectKey("big")).exists(java.util.Arrays.equals(_, body)))
  }

  test("a second create returns the first writer and does not change the object") {
    val key = ObjectKey("cuts/00000000000000000007.cut")
    val first = fresh()
    assert(store.create(key, bytes("one"), first) == CreateResult.Created)
    val writer = if (keepsTokens) Some(first) else None
    assert(store.create(key, bytes("two"), fresh()) == CreateResult.Exists(writer))
    assert(text(key.name).contains("one"))
  }

  test("a create does not replace a put object") {
    put("a", "put")
    val result = store.create(ObjectKey("a"), bytes("created"), fresh())
    assert(result == CreateResult.Exists(writer = None))
    assert(text("a").contains("put"))
  }

  test("an object can be created again after its deletion") {
    val key = ObjectKey("a")
    store.create(key, bytes("one"), fresh())
    store.delete(Seq(key))
    assert(store.create(key, bytes("two"), fresh()) == CreateResult.Created)
    assert(text("a").contains("two"))
  }

  test("of 12 concurrent creates exactly one succeeds, and its bytes are kept") {
    val writers = 12
    val pool = Executors.newFixedThreadPool(writers)
    implicit val context: ExecutionContext = ExecutionContext.fromExecutor(pool)
    try
      for (round <- 1 to 10) {
        val key = ObjectKey(s"race/$round")
        val start = new CyclicBarrier(writers)
        val attempts = Seq.tabulate(writers) { writer =>
          Future {
            val body = Array.fill(100 + round * 5000)(writer.toByte)
            start.await()
            writer -> store.create(key, body, fresh())
          }
        }
        val results = Await.result(Future.sequence(attempts), Patience.Seconds.seconds)
        val winners = results.collect { case (writer, CreateResult.Created) => writer }
        assert(winners.size == 1, s"in round $round: $results")
        val expected = Array.fill(100 + round * 5000)(winners.head.toByte)
        assert(store.get(key).exists(java.util.Arrays.equals(_, expected)))
      }
    finally pool.shutdown()
  }

  test("a range is read up to the last byte") {
    put("a", "0123456789")
    def range(offset: Long, length: Int) =
      store.getRange(ObjectKey("a"), offset, length) match {
        case RangeResult.Found(bytes) => new String(bytes, UTF_8)
        case other                    => other.toString
      }
    assert(range(0, 3) == "012")
    assert(range(4, 1) == "4")
    assert(range(7, 3) == "789")
    assert(range(0, 10) == "0123456789")
  }

  test("a range beyond the end returns the size of the object") {
    put("a", "0123456789")
    for (offset <- Seq(8L, 9L, 10L, 4000000000L))
      assert(store.getRange(ObjectKey("a"), offset, 3) == RangeResult.TooShort(10))
    assert(store.getRange(ObjectKey("b"), 0, 3) == RangeResult.Missing)
  }

  test("an empty range is refused without a request") {
    val before = store.counts.requests
    intercept[IllegalArgumentException](store.getRange(ObjectKey("a"), 0, 0))
    intercept[IllegalArgumentException](store.getRange(ObjectKey("a"), -1, 1))
    assert(store.counts.requests == before)
  }

  test("head returns size and age") {
    val beforeMs = Clock.System.wallMs()
    put("a", "0123456789")
    val info = store.head(ObjectKey("a")).get
    assert(info.key == ObjectKey("a") && info.sizeBytes == 10)
    // Stores round to seconds.
    assert(info.modifiedMs >= beforeMs - 1000 && info.modifiedMs <= Clock.System.wallMs() + 1000)
    assert(store.head(ObjectKey("b")).isEmpty)
  }

  test("a listing has all objects below its prefix, at any depth, and no others") {
    Seq("a", "b/1", "b/2", "b/c/3", "b/c/d/4", "bb/5").foreach(put(_, "x"))
    assert(listed("") == Seq("a", "b/1", "b/2", "b/c/3", "b/c/d/4", "bb/5"))
    assert(listed("b/") == Seq("b/1", "b/2", "b/c/3", "b/c/d/4"))
    assert(listed("b/c/") == Seq("b/c/3", "b/c/d/4"))
    assert(listed("c/") == Nil)
    val info = store.list(ObjectPrefix("bb/")).next()
    assert(info.sizeBytes == 1 && info.modifiedMs > 0)
  }

  private def level(prefix: String): Set[Listed] = store.listLevel(ObjectPrefix(prefix)).toSet

  private def names(entries: Set[Listed]): Set[String] = entries.map {
    case Listed.Here(info)    => info.key.name
    case Listed.Below(prefix) => prefix.name
    case Listed.Foreign(name) => s"foreign $name"
  }

  test("a listing of one level has each directory once") {
    Seq("a", "b/1", "b/2", "b/c/3", "b/c/d/4", "bb/5").foreach(put(_, "x"))
    assert(names(level("")) == Set("a", "b/", "bb/"))
    assert(names(level("b/")) == Set("b/1", "b/2", "b/c/"))
    assert(names(level("b/c/")) == Set("b/c/3", "b/c/d/"))
    assert(level("c/").isEmpty)
    val one = level("bb/").collect { case Listed.Here(info) => info }
    assert(one.map(_.sizeBytes) == Set(1L) && one.forall(_.modifiedMs > 0))
  }

  test("a listing of a range has the names between its limits, at any depth") {
    val all = Seq("a/2", "b/1/x", "b/2/x", "b/2/y/z", "b/22/x", "b/3/x", "b/4.cut", "c/1")
    all.foreach(put(_, "x"))
    def range(after: String, until: String) = {
      val infos = store.listRange(ObjectRange(ObjectPrefix("b/"), after, until))
      infos.map(_.key.name).toSeq.sorted
    }
    assert(range("b/", "b0") == all.slice(1, 7))
    assert(range("b/2/", "b/3/") == Seq("b/2/x", "b/2/y/z", "b/22/x"))
    assert(range("b/2/x", "b/22/x") == Seq("b/2/y/z"))
    assert(range("b/3", "b/4") == Seq("b/3/x") && range("b/3", "b/5") == Seq("b/3/x", "b/4.cut"))
    assert(range("b/5/", "b/9/").isEmpty)
  }

  test("names support all characters of keys") {
    val name = "state=0/_meta-data/v1.2_a=B.cut"
    put(name, "x")
    assert(listed("state=0/") == Seq(name))
    assert(text(name).contains("x"))
  }

  test("delete removes several objects, and ignores missing ones") {
    Seq("a", "b/1", "b/2").foreach(put(_, "x"))
    store.delete(Seq("a", "b/1", "b/never", "a").map(ObjectKey(_)))
    assert(listed("") == Seq("b/2"))
    store.delete(Nil)
  }

  test("an upload is visible only after its completion") {
    val part = Clock.System.randomBytes(MultipartUpload.MinPartBytes)
    val last = Clock.System.randomBytes(1000)
    val key = ObjectKey("segments/1.seg")
    val upload = store.upload(key, part.length, fresh())
    upload.part(1, part)
    upload.part(3, last)
    assert(store.head(key).isEmpty && listed("") == Nil)
    upload.part(2, part)
    upload.complete()
    assert(store.get(key).exists(java.util.Arrays.equals(_, part ++ part ++ last)))
    upload.abort()
    assert(listed("") == Seq(key.name))
  }

  test("an aborted upload leaves no object") {
    val upload = store.upload(ObjectKey("a"), MultipartUpload.MinPartBytes, fresh())
    upload.part(1, new Array[Byte](1000))
    upload.abort()
    assert(listed("") == Nil)
    intercept[Exception](upload.complete())
    assert(store.head(ObjectKey("a")).isEmpty)
  }

  test("parts of different sizes are refused before they are sent") {
    val size = MultipartUpload.MinPartBytes
    intercept[IllegalArgumentException](store.upload(ObjectKey("a"), size - 1, fresh()))
    val upload = store.upload(ObjectKey("a"), size, fresh())
    intercept[IllegalArgumentException](upload.part(0, new Array[Byte](size)))
    intercept[IllegalArgumentException](upload.part(1, new Array[Byte](size + 1)))
    intercept[IllegalArgumentException](upload.complete())
    upload.part(1, new Array[Byte](size - 1))
    upload.part(2, new Array[Byte](1))
    intercept[IllegalArgumentException](upload.complete())
    upload.abort()
    assert(listed("") == Nil)
  }

  test("only incomplete uploads are dropped, by age") {
    assume(listsUploads, "this store does not list uploads")
    val part = new Array[Byte](MultipartUpload.MinPartBytes)
    val finished = store.upload(ObjectKey("a"), part.length, fresh())
    finished.part(1, part)
    finished.complete()
    val left = Seq("b", "b/c/d").map { name =>
      val upload = store.upload(ObjectKey(name), part.length, fresh())
      upload.part(1, part)
      upload
    }
    val nowMs = Clock.System.wallMs()
    assert(store.dropUnfinished(nowMs - 24 * 3600 * 1000) == 0)
    assert(store.dropUnfinished(nowMs + 3600 * 1000) == left.size)
    assert(store.dropUnfinished(nowMs + 3600 * 1000) == 0)
    assert(listed("") == Seq("a"))
    left.foreach(upload => intercept[Exception](upload.complete()))
    assert(listed("") == Seq("a"))
  }

  test("objects of an interrupted write probe are dropped by age") {
    Seq("a", "probe-0f/plain", "probe-0f/exclusive", "probes/1", "b/probe-1/plain")
      .foreach(put(_, "x"))
    val nowMs = Clock.System.wallMs()
    assert(WriteProbe.dropLeftBehind(store, nowMs - 24 * 3600 * 1000) == 0)
    assert(WriteProbe.dropLeftBehind(store, nowMs + 3600 * 1000) == 2)
    assert(listed("") == Seq("a", "b/probe-1/plain", "probes/1"))
  }

  test("requests and bytes are counted by kind") {
    val before = store.counts
    put("a", "12345")
    store.create(ObjectKey("b"), bytes("123"), fresh())
    store.get(ObjectKey("a"))
    store.getRange(ObjectKey("a"), 1, 2)
    store.head(ObjectKey("a"))
    listed("")
    store.delete(Seq(ObjectKey("a")))
    val counted = store.counts - before
    val kinds = Seq[RequestKind](
      RequestKind.Put,
      RequestKind.Create,
      RequestKind.Get,
      RequestKind.GetRange,
      RequestKind.Head,
      RequestKind.ListPage,
      RequestKind.Delete
    )
    assert(kinds.map(counted(_)) == kinds.map(_ => KindCounts(1, 0, 0)))
    assert(counted.requests == kinds.size && counted.retries == 0 && counted.failures == 0)
    assert(counted.bytesSent == 8 && counted.bytesReceived == 7)
    assert(counted.billed(RequestKind.Billing.ClassA) == 3)
    assert(counted.billed(RequestKind.Billing.ClassB) == 3)
  }

  test("the write probe passes and leaves no object") {
    new WriteProbe(store, Clock.System).run()
    assert(listed("") == Nil)
    assert(store.counts.failures == 0)
  }

  test("a second close has no effect") {
    store.close()
    store.close()
  }
}
