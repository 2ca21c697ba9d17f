package io.cleancut.objectstore.readahead

import java.util.concurrent.TimeUnit

import scala.collection.mutable

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.ParallelReads
import io.cleancut.objectstore._
import io.cleancut.testkit.ManualClock

/** Reads that a start makes ahead are those of one moment, and end with it. */
class ReadAheadSuite extends AnyFunSuite {
  import ReadAheadSuite._

  /** A bucket with a log, and a view that has read it ahead. */
  private class Bench(files: Int = 3) {
    val clock = new ManualClock
    val requests = mutable.Buffer.empty[(RequestKind, String)]
    var refused = Set.empty[RequestKind]
    var isOfStart = true
    private val bucket = new SimulatedBucket(NoWatch, _ => true)
    private object Network extends SimulatedNetwork {
      override def request[A](kind: RequestKind, effect: () => A): A = {
        requests += kind -> ""
        if (refused(kind)) throw new IllegalStateException("refused")
        effect()
      }
    }
    val store = new SimulatedStore("bucket", bucket, Network, clock, pageSize = 1000)
    val ahead =
      new ReadAhead(store, new ParallelReads(read => read.run()), clock, () => isOfStart)
    val view = new ReadAheadStore(store, () => Some(ahead))
    (0 until files).foreach(n => store.put(key(n), bytes(n)))
    store.put(ObjectKey("q/metadata"), bytes(100))
    requests.clear()

    def fill(): Unit = {
      ahead.fill(ReadPlan(Seq(Root), Seq(Log), infos => infos))
      requests.clear()
    }

    /** The number of requests of an action. */
    def countOf(action: => Any): Int = {
      requests.clear()
      action
      requests.size
    }
  }

  private def bench(files: Int = 3)(test: Bench => Any): Unit = {
    test(new Bench(files))
    ()
  }

  private def names(infos: Iterator[ObjectInfo]) = infos.map(_.key.name).toSet

  test("lists, sizes, bytes and absences are those of the moment, without a request") {
    bench() { b =>
      b.fill()
      b.store.put(key(7), bytes(7))
      b.store.delete(Seq(key(0)))
      val made = b.countOf {
        assert(names(b.view.list(Log)) == Set("q/log/0", "q/log/1", "q/log/2"))
        assert(b.view.listLevel(Log).toSet == b.view.list(Log).map(Listed.Here(_)).toSet)
        assert(b.view.listLevel(Root).toSet.contains(Listed.Below(Log)))
        assert(b.view.head(key(0)).map(_.sizeBytes).contains(bytes(0).length.toLong))
        assert(b.view.head(key(7)).isEmpty && b.view.get(key(7)).isEmpty)
        assert(b.view.get(key(1)).exists(_.sameElements(bytes(1))))
        val piece = b.view.getPiece(key(2), 0L, 1 << 20).get
        assert(piece.bytes.sameElements(bytes(2)) && piece.objectBytes == bytes(2).length)
        assert(b.view.getPiece(ObjectKey("q/log"), 0L, 1).isEmpty)
      }
      assert(made == 0)
    }
  }

  test("a name that was written, and each list that contains it, is requested again") {
    bench() { b =>
      b.fill()
      b.store.put(key(7), bytes(7))
      assert(b.view.create(key(7), bytes(8), WriterToken.fresh(b.clock)) != CreateResult.Created)
      assert(b.view.get(key(7)).exists(_.sameElements(bytes(7))))
      assert(b.countOf(names(b.view.list(Log))) == 1 && names(b.view.list(Log))("q/log/7"))
      assert(b.countOf(b.view.listLevel(Log).toSeq) == 1)
      assert(b.countOf(b.view.get(key(1))) == 0)
      b.view.delete(Seq(key(1)))
      assert(b.view.head(key(1)).isEmpty && b.view.get(key(1)).isEmpty)
      b.fill()
      assert(b.countOf(assert(names(b.view.list(Log))("q/log/7"))) == 0)
    }
  }

  test("other threads, later times and the next epoch make their requests") {
    bench() { b =>
      b.fill()
      b.isOfStart = false
      assert(b.countOf(b.view.head(key(1))) == 1)
      b.isOfStart = true
      assert(b.countOf(b.view.head(key(1))) == 0)
      b.clock.advance(1, TimeUnit.MINUTES)
      assert(b.countOf(b.view.head(key(1))) == 1)
      b.fill()
      assert(b.countOf(b.view.head(key(1))) == 0)
      b.ahead.end()
      assert(b.countOf(b.view.list(Log).toSeq) == 1)
    }
  }

  test("a request that fails ahead is made again by the read, which reports the error") {
    bench() { b =>
      b.refused = Set(RequestKind.Get)
      b.fill()
      assert(b.countOf(assert(names(b.view.list(Log)).size == 3)) == 0)
      intercept[Exception](b.view.get(key(1)))
      b.refused = Set(RequestKind.ListPage)
      b.fill()
      intercept[Exception](b.view.list(Log).toSeq)
      b.refused = Set.empty
      assert(b.view.list(Log).size == 3 && b.view.get(key(9)).isEmpty)
    }
  }

  test("a list that is too long, and large objects, are read on demand") {
    bench(files = 1001) { b =>
      b.store.put(ObjectKey("q/large"), new Array[Byte](300000))
      b.fill()
      assert(b.view.list(Log).size == 1001)
      assert(b.countOf(b.view.head(key(1))) == 1)
      assert(b.countOf(b.view.head(ObjectKey("q/large"))) == 0)
      assert(b.countOf(assert(b.view.get(ObjectKey("q/large")).get.length == 300000)) == 1)
    }
  }
}

object ReadAheadSuite {
  private val Root = ObjectPrefix("q/")
  private val Log = ObjectPrefix("q/log/")

  private def key(number: Int) = ObjectKey(s"q/log/$number")
  private def bytes(number: Int) = s"entry $number".getBytes

  private object NoWatch extends BucketWatch {
    override def written(name: String, body: Array[Byte], replaced: Option[Array[Byte]]): Unit = ()
    override def deleted(name: String): Unit = ()
  }
}
