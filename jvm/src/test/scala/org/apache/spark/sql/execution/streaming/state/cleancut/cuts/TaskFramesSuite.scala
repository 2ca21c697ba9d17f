package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.io.IOException
import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** What a task waits for that makes frames of several stores. */
class TaskFramesSuite extends AnyFunSuite {

  test("each frame is on its way while the next is made, and the last waits for all of them") {
    val frames = new TaskFrames(() => ())
    val durable = new CountDownLatch(1)
    val sent = new ConcurrentLinkedQueue[Int]
    for (_ <- 0 until 4) frames.begin()
    def send(store: Int): Unit = {
      durable.await(20, TimeUnit.SECONDS)
      sent.add(store)
      ()
    }
    for (store <- 0 until 3) frames.commit(() => send(store))
    assert(sent.isEmpty, "a store has waited before the last of them")
    val last = new Thread(() => frames.commit(() => send(3)))
    last.start()
    last.join(200)
    assert(last.isAlive && sent.isEmpty, "the last store has not waited")
    durable.countDown()
    last.join(20000)
    assert(sent.asScala.toSet == Set(0, 1, 2, 3))
  }

  test("a frame that is refused is an error of the last commit, whichever it was") {
    for (refused <- 0 until 3) {
      var isOver = false
      val frames = new TaskFrames(() => isOver = true)
      for (_ <- 0 until 3) frames.begin()
      def commit(store: Int): Unit =
        frames.commit(() => if (store == refused) throw new IOException(s"store $store"))
      commit(0)
      commit(1)
      assert(!isOver)
      assert(intercept[IOException](commit(2)).getMessage == s"store $refused")
      assert(isOver)
    }
  }

  test("a store that gives up is not waited for, and those that were sent are") {
    val frames = new TaskFrames(() => ())
    for (_ <- 0 until 3) frames.begin()
    frames.cancel()
    frames.commit(() => throw new IOException("store 1"))
    assert(intercept[IOException](frames.cancel()).getMessage == "store 1")
  }

  test("the only store of a task sends in the task's own thread") {
    val frames = new TaskFrames(() => ())
    frames.begin()
    var thread = Option.empty[Thread]
    frames.commit(() => thread = Some(Thread.currentThread))
    assert(thread.contains(Thread.currentThread))
  }
}
