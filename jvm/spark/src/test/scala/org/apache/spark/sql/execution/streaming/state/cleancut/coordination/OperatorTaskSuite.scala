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

/** What a task tells of one operator, and waits for. */
class OperatorTaskSuite extends AnyFunSuite {
  private def store(name: String) = StoreId(0L, 0, name)
  private val names = Seq("left", "right")
  private val channels = Seq(0, 1).map(input => StoreId(0L, 0, Channels.name(input)))
  private val version = 7L

  /** A coordinator that knows both stores, and notes what it is asked. */
  private class Told(known: Seq[String] = names) {
    val asked = mutable.Buffer.empty[TaskStart]
    var begun = 0
    var isOver = false
    val task = new OperatorTask(answer, () => begun += 1, () => isOver = true)

    private def answer(start: TaskStart): CutsReply = {
      asked += start
      val stores = (start.stores ++ known.map(store)).distinct
      val opened = stores.map(of => of -> Opened(Some(of.name), needsBase = false)).toMap
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

  test("a task that opens several stores of an operator asks once") {
    val told = new Told
    for (name <- names) assert(told.open(name).exists(_.accepted.contains(name)))
    assert(told.asked.size == 1 && told.begun == 1)
    // Whoever opens a store again asks again, and so does who opens another version.
    assert(told.open("left").isRight && told.open("left", at = 8L).isRight)
    assert(told.asked.size == 3)
  }

  test("a store that is looked at before it is opened is asked for once") {
    val told = new Told(known = Nil)
    assert(told.task.opened(TaskStart(1L, 0L, 0, version, Seq(store("left")))).isRight)
    assert(told.open("left").isRight && told.open("right").isRight)
    assert(told.asked.map(_.stores) == Seq(Seq(store("left")), Seq(store("right"))))
  }

  test("channels are all told with the first of them, and stores with these") {
    val told = new Told
    val tasks = channels.map(ChannelTask(1L, _, version, 4, "1", Capture.Off))
    for (of <- tasks) assert(told.task.channel(of, tasks).exists(_.mayDefer))
    names.foreach(name => assert(told.open(name).isRight))
    assert(told.asked.map(_.channels) == Seq(tasks))
  }

  test("who is refused is told so, and may ask again") {
    var reply: CutsReply = NoQuery
    val task = new OperatorTask(_ => reply, () => fail("it has not begun"), () => ())
    val start = TaskStart(1L, 0L, 0, version, Seq(store("left")))
    assert(task.open(start) == Left(NoQuery))
    reply = Declined(Refusal.Fenced("another"))
    assert(task.open(start) == Left(reply))
  }

  test("all frames and arrivals are delivered with the last store, and only then") {
    val told = new Told
    val delivered = mutable.Buffer.empty[(Seq[MadeFrame], Seq[Arrival])]
    val digest = RowsDigest(3L, 5L)
    val arrivals = channels.map { of =>
      Arrival(ChannelReport(of, digest, RowsDigest.Empty), ChannelReading.Nothing)
    }
    def commit(name: String): Unit =
      told.task.commit(isSmall = true, () => small(name))((made, of) => delivered += made -> of)
    names.foreach(_ => told.task.begin())
    arrivals.foreach(told.task.arrived)
    commit("left")
    assert(delivered.isEmpty && !told.isOver)
    commit("right")
    assert(told.isOver)
    val frames = delivered.head._1.collect { case MadeFrame.Small(frame) => frame.name.store.name }
    assert(delivered.size == 1 && frames == names && delivered.head._2 == arrivals)
  }

  test("each large frame is on its way while the next is made, and the last waits for all") {
    val told = new Told
    val durable = new CountDownLatch(1)
    val sent = new ConcurrentLinkedQueue[Int]
    var delivered = 0
    def commit(of: Int): Unit = {
      def make() = {
        durable.await(Patience.Seconds, TimeUnit.SECONDS)
        sent.add(of)
        small("left")
      }
      told.task.commit(isSmall = false, () => make())((made, _) => delivered = made.size)
    }
    for (_ <- 0 until 4) told.task.begin()
    (0 until 3).foreach(commit)
    assert(sent.isEmpty, "a store has waited before the last of them")
    val last = new Thread(() => commit(3))
    last.start()
    last.join(200)
    assert(last.isAlive && sent.isEmpty, "the last store has not waited")
    durable.countDown()
    last.join(TimeUnit.SECONDS.toMillis(Patience.Seconds))
    assert(sent.asScala.toSet == Set(0, 1, 2, 3) && delivered == 4)
  }

  test("a frame that cannot be made is an error of the last commit, and nothing is delivered") {
    for (broken <- 0 until 3) {
      val told = new Told
      for (_ <- 0 until 3) told.task.begin()
      def make(of: Int) = if (of == broken) throw new IOException(s"store $of") else small("left")
      def commit(of: Int): Unit =
        told.task.commit(isSmall = false, () => make(of))((_, _) => fail("it is delivered"))
      commit(0)
      commit(1)
      assert(!told.isOver)
      assert(intercept[IOException](commit(2)).getMessage == s"store $broken")
      assert(told.isOver)
    }
  }

  test("a store that gives up is not waited for, and nothing of the others is delivered") {
    val told = new Told
    for (_ <- 0 until 3) told.task.begin()
    told.task.cancel()
    told.task.commit(isSmall = false, () => throw new IOException("store 1"))((_, _) => fail("no"))
    assert(intercept[IOException](told.task.cancel()).getMessage == "store 1")
  }

  test("a frame that is begun anew is delivered with what the attempt has read") {
    val told = new Told
    val digest = RowsDigest(3L, 5L)
    val report = ChannelReport(channels.head, digest, RowsDigest.Empty)
    told.task.begin()
    told.task.arrived(Arrival(report, ChannelReading.Nothing))
    told.task.cancel()
    told.task.begin()
    var arrivals = 0
    told.task.commit(isSmall = true, () => small("left"))((_, of) => arrivals = of.size)
    assert(arrivals == 1)
  }

  test("the only store of a task makes its frame in the task's own thread") {
    val told = new Told
    told.task.begin()
    var thread = Option.empty[Thread]
    def make() = {
      thread = Some(Thread.currentThread)
      small("left")
    }
    told.task.commit(isSmall = false, () => make())((_, _) => ())
    assert(thread.contains(Thread.currentThread))
  }
}
