package org.apache.spark.sql.execution.streaming.state.cleancut.cuts

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import org.apache.spark.rpc.{RpcAddress, RpcCallContext}

import io.cleancut.Clock
import io.cleancut.cuts._
import io.cleancut.objects._

/** A driver with thousands of tasks that ask while a run of their query begins. */
class CutsEndpointSuite extends AnyFunSuite with CutsOnDisk with Eventually {
  implicit override def patienceConfig: PatienceConfig =
    PatienceConfig(timeout = Span(60, Seconds), interval = Span(10, Millis))

  private val Tasks = 2000

  /** A store whose listings wait until they may go on, and may fail then. */
  private class Slow(isAway: Boolean) extends ForwardingStore(store) {
    val goOn = new CountDownLatch(1)
    val listings = new AtomicInteger
    val isListing = new CountDownLatch(1)
    @volatile var guard = Option.empty[AnyRef]
    @volatile var wasHeld = false

    private def look(): Unit = guard.foreach(of => wasHeld = wasHeld || Thread.holdsLock(of))

    override def get(key: ObjectKey): Option[Array[Byte]] = {
      look()
      super.get(key)
    }

    override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
      look()
      super.create(key, body, token)
    }

    override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
      look()
      listings.incrementAndGet()
      isListing.countDown()
      goOn.await()
      if (isAway) throw new IllegalStateException("the store is away")
      super.list(prefix)
    }
  }

  private class Asked(slow: Slow, patienceMs: Long) {
    val cuts =
      new QueryCuts(new CutArchive(slow, Clock.System), new Logs(None, 100), "host", Clock.System)
    slow.guard = Some(cuts)
    val heard = new AtomicInteger
    private val endpoint = new CutsEndpoint(null, _ => heardAt(), patienceMs)
    val answers = new ConcurrentLinkedQueue[Either[Throwable, CutsReply]]

    private object Caller extends RpcCallContext {
      override def reply(response: Any): Unit = {
        answers.add(Right(CutsMessages.decode[CutsReply](response.asInstanceOf[Array[Byte]])))
        ()
      }
      override def sendFailure(e: Throwable): Unit = {
        answers.add(Left(e))
        ()
      }
      override def senderAddress: RpcAddress = RpcAddress("host", 1)
    }

    private def heardAt(): Either[CutsReply, QueryCuts] = {
      heard.incrementAndGet()
      Right(cuts)
    }

    def ask(task: Int): Unit =
      endpoint.receiveAndReply(Caller)(
        CutsMessages.encode(Open("at", "run", task.toLong, part(task), 0, Place("1", "host")))
      )

    def stop(): Unit = {
      endpoint.onStop()
      cuts.close()
    }
  }

  private def asked(slow: Slow, patienceMs: Long = 60_000)(body: Asked => Any): Unit = {
    val driver = new Asked(slow, patienceMs)
    try {
      (0 until Tasks).foreach(driver.ask)
      assert(slow.isListing.await(30, TimeUnit.SECONDS))
      body(driver)
      assert(!slow.wasHeld, "a request was made under the coordinator's monitor")
      ()
    } finally {
      slow.goOn.countDown()
      driver.stop()
    }
  }

  private def threads =
    Thread.getAllStackTraces.keySet.asScala.count(_.getName == "cleancut-coordinator")

  test("tasks that ask while a run begins are answered after one start, on a bound of threads") {
    val slow = new Slow(isAway = false)
    asked(slow) { driver =>
      assert(threads <= 32 && driver.answers.isEmpty)
      slow.goOn.countDown()
      eventually(assert(driver.answers.size == Tasks))
      assert(driver.answers.asScala.forall(_.exists(_.isInstanceOf[OpenReply])))
      assert(threads <= 32 && driver.cuts.status.run.exists(_.generation == 1))
    }
  }

  test("where the store is away, one failure answers all that wait, and the next ask tries again") {
    val slow = new Slow(isAway = true)
    asked(slow) { driver =>
      eventually(assert(driver.heard.get == Tasks))
      slow.goOn.countDown()
      eventually(assert(driver.answers.size == Tasks))
      assert(driver.answers.asScala.forall(_.left.exists(_.getMessage.contains("is away"))))
      val once = slow.listings.get
      assert(once < 5)
      driver.ask(0)
      eventually(assert(driver.answers.size == Tasks + 1))
      assert(slow.listings.get > once)
    }
  }

  test("a task that has waited too long is told what for") {
    asked(new Slow(isAway = false), patienceMs = 1500) { driver =>
      eventually(assert(driver.answers.size >= Tasks - 1))
      assert(driver.answers.asScala.forall(_.exists {
        case Declined(why) => why.why.contains("run run to begin")
        case _             => false
      }))
    }
  }
}
