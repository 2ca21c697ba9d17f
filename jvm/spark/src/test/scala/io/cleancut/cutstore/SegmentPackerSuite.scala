package io.cleancut.cutstore

import java.util.concurrent.{
  CompletableFuture,
  ConcurrentLinkedQueue,
  CountDownLatch,
  ExecutionException,
  TimeUnit
}

import scala.jdk.CollectionConverters._

import org.scalatest.BeforeAndAfterEach
import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.objectstore.{
  BucketWatch,
  RequestKind,
  SimulatedBucket,
  SimulatedNetwork,
  SimulatedStore
}
import io.cleancut.testkit.{ManualClock, Patience}
import io.cleancut.format.{FrameKind, FrameName, PlacedFrame, SegmentIdentity}
import io.cleancut.format.cut.SealedFrame

class SegmentPackerSuite extends AnyFunSuite with BeforeAndAfterEach {
  private val IdleMs = 300L
  private val run = SegmentIdentity(3, "1", "run", 1)
  private val version = StateVersion(4, StateVersion.newId(Clock.System))
  private val names = new ConcurrentLinkedQueue[String]
  // A manual clock, so that no pause of the machine ends a linger.
  private val clock = new ManualClock
  private var answers = new CountDownLatch(0)
  private var packer: SegmentPacker = _

  private object Watch extends BucketWatch {
    override def written(name: String, body: Array[Byte], replaced: Option[Array[Byte]]): Unit = {
      names.add(name)
      ()
    }
    override def deleted(name: String): Unit = ()
  }

  /** A network whose requests take effect at once and return when the test permits it. */
  private object Network extends SimulatedNetwork {
    override def request[A](kind: RequestKind, effect: () => A): A = {
      val result = effect()
      assert(answers.await(Patience.Seconds, TimeUnit.SECONDS))
      result
    }
  }

  override protected def beforeEach(): Unit = {
    names.clear()
    answers = new CountDownLatch(0)
    val bucket = new SimulatedBucket(Watch, _ => true)
    val store = new SimulatedStore("bucket", bucket, Network, Clock.System, 1000)
    packer = new SegmentPacker(store, "1", clock, IdleMs)
  }

  override protected def afterEach(): Unit = {
    answers.countDown()
    packer.close()
  }

  private def threads = Thread.getAllStackTraces.keySet.asScala.toSet.filter { thread =>
    thread.getName.startsWith("cleancut-segment-") && thread.isAlive
  }

  private def submit(partition: Int) = {
    val name = FrameName(StoreId(0, partition, "default"), version, FrameKind.Delta)
    packer.submit(run, SealedFrame(name, partition.toLong, new Array[Byte](10)))
  }

  /** Waits for a condition, and advances the clock of the packer unless `timePasses` is false. */
  private def await(description: String, timePasses: Boolean = true)(isMet: => Boolean): Unit = {
    val end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Patience.Seconds)
    while (!isMet && System.nanoTime() < end) {
      if (timePasses) clock.advance(5, TimeUnit.MILLISECONDS)
      Thread.sleep(1)
    }
    if (!isMet) fail(s"not within the limit: $description")
  }

  private def placeOf(done: CompletableFuture[PlacedFrame]) = {
    await("a frame is written")(done.isDone)
    done.get().place
  }

  test("frames that arrive within the linger are written into one object") {
    val frames = (0 to 9).map(submit)
    val places = frames.map(placeOf)
    assert(places.map(_.segment).distinct.size == 1 && places.map(_.offset).distinct.size == 10)
    assert(packer.written.segments == 1)
  }

  test("the packer has a thread only while it has frames") {
    val others = threads
    for (partition <- 0 to 1) {
      answers = new CountDownLatch(1)
      val done = submit(partition)
      await("its object is being written")(names.size == partition + 1)
      assert(threads.diff(others).nonEmpty)
      answers.countDown()
      placeOf(done)
      await("its threads end", timePasses = false)(threads.diff(others).isEmpty)
    }
  }

  test("a close fails all unwritten frames and all later ones") {
    val taken = submit(0)
    packer.close()
    Seq(taken, submit(1)).foreach { done =>
      intercept[ExecutionException](done.get(Patience.Seconds, TimeUnit.SECONDS))
    }
  }

  test("frames that arrive during a write are written into the next object") {
    answers = new CountDownLatch(1)
    val first = submit(0)
    await("the first is being written")(names.size == 1)
    // Intervals longer than the linger, and shorter than the wait for the current object.
    val later = (1 to 3).map { partition =>
      clock.advance(30, TimeUnit.MILLISECONDS)
      Thread.sleep(30)
      submit(partition)
    }
    assert(names.size == 1)
    answers.countDown()
    val segments = later.map(placeOf(_).segment)
    assert(segments.distinct.size == 1 && names.asScala.size == 2 && first.isDone)
  }

  test("a stalled write delays the next object only briefly") {
    answers = new CountDownLatch(1)
    submit(0)
    await("the first is being written")(names.size == 1)
    submit(1)
    await("the next is written concurrently")(names.size == 2)
  }
}
