package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io.IOException
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.collection.mutable
import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.coordinator.state.{Arrival, Opened, TaskStart, TaskStarted}
import io.cleancut.format.{Channels, FrameKind, FrameName}
import io.cleancut.format.cut.{ChannelReading, ChannelReport, RowsDigest, SealedFrame}
import io.cleancut.protocol.{ChannelOpened, ChannelTask, Refusal}
import io.cleancut.testkit.{Frames, Patience}
import io.cleancut.conf.Capture

/** The messages of a task for one operator. */
class OperatorTaskSuite extends AnyFunSuite {
  private def store(name: String) = StoreId(0L, 0, name)
  private val names = Seq("left", "right")
  private val channels = Seq(0, 1).map(input => StoreId(0L, 0, Channels.name(input)))
  private val version = 7L

  /** A coordinator that knows both stores, and records requests. */
  private class Recorder(known: Seq[String] = names) {
    val requests = mutable.Buffer.empty[TaskStart]
    var begun = 0
    var hasEnded = false
    val task = new OperatorTask(respond, () => begun += 1, () => hasEnded = true)

    private def respond(start: TaskStart): CutsReply = {
      requests += start
      val stores = (start.stores ++ known.map(store)).distinct
      val opened = stores.map(store => store -> Opened(Some(store.name), needsBase = false)).toMap
      val read = start.channels.map(_.channel -> ChannelOpened(None, None, true, false))
      StartReply(TaskStarted(opened, read.toMap))
    }

    def open(name: String, at: Long = version): Either[CutsReply, Opened] =
      task.open(TaskStart(1L, 0L, 0, at, Seq(store(name))))
  }

  private def small(name: String): MadeFrame = {
    val version = StateVersion(8L, Frames.version(8L).id)
    MadeFrame.Small(SealedFrame(FrameName(store(name), version, FrameKind.Delta), 1L, Array(1)))
  }

  test("a task that opens several stores of an operator sends one request") {
    val recorder = new Recorder
    for (name <- names) assert(recorder.open(name).exists(_.accepted.contains(name)))
    assert(recorder.requests.size == 1 && recorder.begun == 1)
    // Opening a store again, or another version, sends another request.
    assert(recorder.open("left").isRight && recorder.open("left", at = 8L).isRight)
    assert(recorder.requests.size == 3)
  }

  test("a store that is checked before it is opened is requested once") {
    val recorder = new Recorder(known = Nil)
    assert(recorder.task.opened(TaskStart(1L, 0L, 0, version, Seq(store("left")))).isRight)
    assert(recorder.open("left").isRight && recorder.open("right").isRight)
    assert(recorder.requests.map(_.stores) == Seq(Seq(store("left")), Seq(store("right"))))
  }

  test("all channels are registered with the first one, and stores with them") {
    val recorder = new Recorder
    val tasks = channels.map(ChannelTask(1L, _, version, 4, "1", Capture.Off))
    for (task <- tasks) assert(recorder.task.channel(task, tasks).exists(_.mayDefer))
    names.foreach(name => assert(recorder.open(name).isRight))
    assert(recorder.requests.map(_.channels) == Seq(tasks))
  }

  test("a refused task receives the reason, and may retry") {
    var reply: CutsReply = NoQuery
    val task = new OperatorTask(_ => reply, () => fail("begin is unexpected"), () => ())
    val start = TaskStart(1L, 0L, 0, version, Seq(store("left")))
    assert(task.open(start) == Left(NoQuery))
    reply = Declined(Refusal.Fenced("another"))
    assert(task.open(start) == Left(reply))
  }

  test("all frames and arrivals are delivered with the last store, and only then") {
    val recorder = new Recorder
    val delivered = mutable.Buffer.empty[(Seq[MadeFrame], Seq[Arrival])]
    val digest = RowsDigest(3L, 5L)
    val arrivals = channels.map { channel =>
      Arrival(ChannelReport(channel, digest, RowsDigest.Empty), ChannelReading.Nothing)
    }
    def commit(name: String): Unit =
      recorder.task.commit(isSmall = true, () => small(name))((made, read) =>
        delivered += made -> read
      )
    names.foreach(_ => recorder.task.begin())
    arrivals.foreach(recorder.task.arrived)
    commit("left")
    assert(delivered.isEmpty && !recorder.hasEnded)
    commit("right")
    assert(recorder.hasEnded)
    val frames = delivered.head._1.collect { case MadeFrame.Small(frame) => frame.name.store.name }
    assert(delivered.size == 1 && frames == names && delivered.head._2 == arrivals)
  }

  test("each large frame is sent while the next is made, and the last waits for all") {
    val recorder = new Recorder
    val durable = new CountDownLatch(1)
    val sent = new ConcurrentLinkedQueue[Int]
    var delivered = 0
    def commit(frame: Int): Unit = {
      def make() = {
        durable.await(Patience.Seconds, TimeUnit.SECONDS)
        sent.add(frame)
        small("left")
      }
      recorder.task.commit(isSmall = false, () => make())((made, _) => delivered = made.size)
    }
    for (_ <- 0 until 4) recorder.task.begin()
    (0 until 3).foreach(commit)
    assert(sent.isEmpty, "a commit before the last one waited")
    val last = new Thread(() => commit(3))
    last.start()
    last.join(200)
    assert(last.isAlive && sent.isEmpty, "the last commit did not wait")
    durable.countDown()
    last.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(sent.asScala.toSet == Set(0, 1, 2, 3) && delivered == 4)
  }

  test("a frame that cannot be made is an error of the last commit, and nothing is delivered") {
    for (broken <- 0 until 3) {
      val recorder = new Recorder
      for (_ <- 0 until 3) recorder.task.begin()
      def make(store: Int) =
        if (store == broken) throw new IOException(s"store $store") else small("left")
      def commit(store: Int): Unit =
        recorder.task.commit(isSmall = false, () => make(store))((_, _) => fail("delivered"))
      commit(0)
      commit(1)
      assert(!recorder.hasEnded)
      assert(intercept[IOException](commit(2)).getMessage == s"store $broken")
      assert(recorder.hasEnded)
    }
  }

  test("a cancelled store is not awaited, and nothing of the others is delivered") {
    val recorder = new Recorder
    for (_ <- 0 until 3) recorder.task.begin()
    recorder.task.cancel()
    recorder.task.commit(isSmall = false, () => throw new IOException("store 1"))((_, _) =>
      fail("no")
    )
    assert(intercept[IOException](recorder.task.cancel()).getMessage == "store 1")
  }

  test("a restarted frame is delivered with the attempt's reading") {
    val recorder = new Recorder
    val digest = RowsDigest(3L, 5L)
    val report = ChannelReport(channels.head, digest, RowsDigest.Empty)
    recorder.task.begin()
    recorder.task.arrived(Arrival(report, ChannelReading.Nothing))
    recorder.task.cancel()
    recorder.task.begin()
    var arrivals = 0
    recorder.task.commit(isSmall = true, () => small("left"))((_, read) => arrivals = read.size)
    assert(arrivals == 1)
  }

  test("the only store of a task makes its frame in the task's own thread") {
    val recorder = new Recorder
    recorder.task.begin()
    var thread = Option.empty[Thread]
    def make() = {
      thread = Some(Thread.currentThread)
      small("left")
    }
    recorder.task.commit(isSmall = false, () => make())((_, _) => ())
    assert(thread.contains(Thread.currentThread))
  }
}
