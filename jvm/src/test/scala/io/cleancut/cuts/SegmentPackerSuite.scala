package io.cleancut.cuts

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, ExecutionException, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.{Clock, StateVersion, StoreId}
import io.cleancut.format._
import io.cleancut.objects._

class SegmentPackerSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val IdleMs = 300L
  private val run = SegmentIdentity(3, "1", "run", 1)
  private val version = StateVersion(4, StateVersion.newId(Clock.System))
  private val names = new ConcurrentLinkedQueue[String]
  private var answers = new CountDownLatch(0)
  private var packer: SegmentPacker = _

  private object Watch extends BucketWatch {
    override def written(name: String, body: Array[Byte], replaced: Option[Array[Byte]]): Unit = {
      names.add(name)
      ()
    }
    override def deleted(name: String): Unit = ()
  }

  /** A request takes effect, and is answered when the test says so. */
  private object Network extends SimulatedNetwork {
    override def request[A](kind: RequestKind, effect: () => A): A = {
      val result = effect()
      assert(answers.await(20, TimeUnit.SECONDS))
      result
    }
  }

  override protected def beforeEach(): Unit = {
    names.clear()
    answers = new CountDownLatch(0)
    val bucket = new SimulatedBucket(Watch, _ => true)
    val store = new SimulatedStore("bucket", bucket, Network, Clock.System, 1000)
    packer = new SegmentPacker(store, "1", Clock.System, IdleMs)
  }

  override protected def afterEach(): Unit = {
    answers.countDown()
    packer.close()
  }

  private def threads = Thread.getAllStackTraces.keySet.asScala.count { thread =>
    thread.getName.startsWith("cleancut-segment-") && thread.isAlive
  }

  private def submit(partition: Int) = {
    val name = FrameName(StoreId(0, partition, "default"), version, FrameKind.Delta)
    packer.submit(run, SealedFrame(name, partition.toLong, new Array[Byte](10)))
  }

  private def awaitObjects(count: Int): Unit = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
    while (names.size < count && System.nanoTime() < end) Thread.sleep(1)
    if (names.size != count) fail(s"${names.size} objects instead of $count")
  }

  test("what comes within the linger goes into one object") {
    val frames = (0 to 9).map(submit)
    val places = frames.map(_.get(20, TimeUnit.SECONDS).place)
    assert(places.map(_.segment).distinct.size == 1 && places.map(_.offset).distinct.size == 10)
    assert(packer.written.segments == 1)
  }

  test("without work it has no thread, and with work it has one again") {
    val others = threads
    for (partition <- 0 to 1) {
      submit(partition).get(20, TimeUnit.SECONDS)
      assert(threads > others)
      val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(20)
      while (threads > others && System.nanoTime() < end) Thread.sleep(10)
      assert(threads == others)
    }
  }

  test("what it has taken and not written when it is closed fails, and so does what comes then") {
    val taken = submit(0)
    packer.close()
    Seq(taken, submit(1)).foreach { done =>
      intercept[ExecutionException](done.get(20, TimeUnit.SECONDS))
    }
  }

  test("while an object is written, the next takes what comes") {
    answers = new CountDownLatch(1)
    val first = submit(0)
    awaitObjects(1)
    // Longer apart than the linger, and shorter than anybody waits for another's object.
    val later = (1 to 3).map { partition =>
      Thread.sleep(30)
      submit(partition)
    }
    assert(names.size == 1)
    answers.countDown()
    val places = later.map(_.get(20, TimeUnit.SECONDS).place.segment)
    assert(places.distinct.size == 1 && names.asScala.size == 2 && first.isDone)
  }

  test("an object whose write hangs holds the next up for a moment only") {
    answers = new CountDownLatch(1)
    submit(0)
    awaitObjects(1)
    submit(1)
    awaitObjects(2)
  }
}
