package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.{CompletableFuture, ConcurrentLinkedQueue, CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.rpc.{RpcAddress, RpcCallContext}

import io.cleancut.base.Clock
import io.cleancut.coordinator.{CutsOnDisk, ForwardingStore, QueryCoordinator}
import io.cleancut.coordinator.state.{Delivery, TaskStart}
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.usage.Usage
import io.cleancut.objectstore.{
  CreateResult,
  ObjectInfo,
  ObjectKey,
  ObjectPrefix,
  ObjectStore,
  WriterToken
}
import io.cleancut.testkit.Patience

/** A driver with thousands of tasks that ask while a run of their query begins. */
class CutsEndpointSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val Tasks = 2000

  /** A store whose listings wait until they may go on, and may fail then. */
  private class Slow(isAway: Boolean, override val requestTimeoutMs: Long = 0L)
      extends ForwardingStore(store) {
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

  /** A store that takes no object whose name begins so, until it may. */
  private class Blocked(name: String) extends ForwardingStore(store) {
    val goOn = new CountDownLatch(1)
    val blocked = new AtomicInteger

    private def await(key: ObjectKey): Unit = if (key.name.startsWith(name)) {
      blocked.incrementAndGet()
      goOn.await()
    }

    override def put(key: ObjectKey, body: Array[Byte]): Unit = {
      await(key)
      super.put(key, body)
    }

    override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
      await(key)
      super.create(key, body, token)
    }
  }

  private def coordinator(of: ObjectStore) =
    new QueryCoordinator(
      new CutArchive(of, Clock.System),
      new Logs(None, 100),
      "host",
      Clock.System
    )

  private class Asked(
      val cuts: QueryCoordinator,
      patienceMs: Long = 60_000,
      others: Seq[QueryCoordinator] = Nil
  ) {
    val heard = new AtomicInteger
    private val endpoint = new CutsEndpoint(null, heardOf, patienceMs)
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

    private def heardOf(message: CutsMessage): Either[CutsReply, QueryCoordinator] = {
      heard.incrementAndGet()
      Right(if (message.location == "at") cuts else others.head)
    }

    def ask(task: Int, epoch: Long = 0, location: String = "at"): Unit =
      tell(Start(location, "run", TaskStart(task.toLong, 0L, task, epoch, Seq(part(task)))))

    def tell(message: CutsMessage): Unit =
      endpoint.receiveAndReply(Caller)(CutsMessages.encode(message))

    def submit(task: Int, partition: Int): Unit = {
      val of = frame(part(partition), 2, task.toLong)
      val from = SenderInfo("1", "host", Usage.Zero.toBytes)
      tell(Deliver("at", "run", Delivery(of.attempt, Seq(of), Nil), from))
    }

    def opened: Int = answers.asScala.count(_.exists(_.isInstanceOf[StartReply]))

    def stop(): Unit = {
      endpoint.onStop()
      (cuts +: others).foreach(_.close())
    }
  }

  private def asked(slow: Slow, patienceMs: Long = 60_000)(body: Asked => Any): Unit = {
    val driver = new Asked(coordinator(slow), patienceMs)
    slow.guard = Some(driver.cuts)
    try {
      (0 until Tasks).foreach(driver.ask(_))
      assert(slow.isListing.await(Patience.Seconds, TimeUnit.SECONDS))
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
      assert(driver.answers.asScala.forall(_.exists(_.isInstanceOf[StartReply])))
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

  /** A run behind epoch 0, with a store that takes no object whose name begins so. */
  private def behindEpoch0(name: String, others: Seq[QueryCoordinator] = Nil)(
      body: (Blocked, Asked) => Any
  ): Unit = {
    epoch(coordinator(store), "before", 0)
    val blocked = new Blocked(name)
    val driver = new Asked(coordinator(blocked), others = others)
    (driver.cuts +: others).foreach(_.begin("run"))
    try {
      body(blocked, driver)
      ()
    } finally {
      blocked.goOn.countDown()
      driver.stop()
    }
  }

  /** Each of them did the request, under the monitor that all others were held up by. */
  test("tasks of the first epoch wait for one claim, and nothing else of the query does") {
    behindEpoch0("cuts/") { (blocked, driver) =>
      (0 until Tasks).foreach(driver.ask(_, epoch = 1))
      eventually(assert(blocked.blocked.get == 1 && driver.heard.get == Tasks))
      driver.tell(Accepted("at", part(0), 1))
      driver.tell(Writer("at", "run"))
      driver.tell(Failed("at", "run", 9))
      eventually(assert(driver.answers.size == 3))
      assert(driver.cuts.status.run.exists(_.generation == 2) && threads <= 32)
      blocked.goOn.countDown()
      eventually(assert(driver.answers.size == Tasks + 3))
      assert(driver.opened == Tasks && blocked.blocked.get == 1)
      assert(archive.cuts.listed().seals.map(_.generation) == Seq(2L))
    }
  }

  test("a seal waits for the claim of its epoch, whose name it would have") {
    behindEpoch0("cuts/") { (blocked, driver) =>
      driver.ask(0, epoch = 1)
      eventually(assert(blocked.blocked.get == 1))
      driver.cuts.hold("run", 1)
      for (p <- 0 to 1) {
        driver.ask(p, epoch = 1)
        driver.submit(task = p, partition = p)
      }
      eventually(assert(driver.answers.size == 4 && driver.opened == 2))
      val sealing = CompletableFuture.runAsync(() => driver.cuts.seal("run", 1))
      Thread.sleep(200)
      assert(!sealing.isDone)
      blocked.goOn.countDown()
      sealing.get(Patience.Seconds, TimeUnit.SECONDS)
      driver.cuts.commit("run", 1, "v1\n{}")
      assert(
        archive.cuts.readSeal(archive.cuts.listed().seals.head, before = None).exists(_.isClaim)
      )
    }
  }

  /** The writes held the threads that all queries of the driver share. */
  test("a query is answered at once while the store of another one takes nothing") {
    val other = coordinator(storeAt("other"))
    behindEpoch0("segments/", others = Seq(other)) { (blocked, driver) =>
      (0 to 1).foreach(p => driver.ask(p, epoch = 1))
      eventually(assert(driver.opened == 2))
      (0 to 1).foreach(p => driver.submit(task = p, partition = p))
      // Of an epoch that may be complete each frame is written before its task goes on.
      eventually(assert(blocked.blocked.get > 0))
      for (task <- 2 until 100) driver.submit(task, partition = 0)
      eventually(assert(driver.heard.get == 102))
      driver.ask(7, epoch = 0, location = "other")
      eventually(assert(driver.opened == 3))
      assert(blocked.blocked.get <= 4)
      blocked.goOn.countDown()
      eventually(assert(driver.answers.size == 103))
      assert(driver.answers.asScala.count(_.exists(_.isInstanceOf[DeliverReply])) == 100)
    }
  }

  test("where a request may take longer than tasks are held up for, a start may, too") {
    val slow = new Slow(isAway = false, requestTimeoutMs = 60_000)
    asked(slow, patienceMs = 100) { driver =>
      eventually(assert(driver.heard.get == Tasks))
      Clock.System.sleep(500, TimeUnit.MILLISECONDS)
      assert(driver.answers.isEmpty)
      slow.goOn.countDown()
      eventually(assert(driver.answers.size == Tasks))
      assert(driver.answers.asScala.forall(_.exists(_.isInstanceOf[StartReply])))
    }
  }
}
