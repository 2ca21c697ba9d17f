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

/** A driver with thousands of tasks that send requests while a run of their query begins. */
class CutsEndpointSuite extends AnyFunSuite with CutsOnDisk with Patience {
  private val Tasks = 2000

  /** A store whose listings block until they are released, and then may fail. */
  private class Slow(isUnavailable: Boolean, override val requestTimeoutMs: Long = 0L)
      extends ForwardingStore(store) {
    val released = new CountDownLatch(1)
    val listings = new AtomicInteger
    val isListing = new CountDownLatch(1)
    @volatile var guard = Option.empty[AnyRef]
    @volatile var wasHeld = false

    private def checkLock(): Unit =
      guard.foreach(lock => wasHeld = wasHeld || Thread.holdsLock(lock))

    override def get(key: ObjectKey): Option[Array[Byte]] = {
      checkLock()
      super.get(key)
    }

    override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
      checkLock()
      super.create(key, body, token)
    }

    override def list(prefix: ObjectPrefix): Iterator[ObjectInfo] = {
      checkLock()
      listings.incrementAndGet()
      isListing.countDown()
      released.await()
      if (isUnavailable) throw new IllegalStateException("the store is unavailable")
      super.list(prefix)
    }
  }

  /** A store that blocks writes of objects with a name prefix until they are released. */
  private class Blocked(name: String) extends ForwardingStore(store) {
    val released = new CountDownLatch(1)
    val blocked = new AtomicInteger

    private def await(key: ObjectKey): Unit = if (key.name.startsWith(name)) {
      blocked.incrementAndGet()
      released.await()
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

  private def coordinator(store: ObjectStore) =
    new QueryCoordinator(
      new CutArchive(store, Clock.System),
      new Logs(None, 100),
      "host",
      Clock.System
    )

  private class TestDriver(
      val cuts: QueryCoordinator,
      patienceMs: Long = 60_000,
      others: Seq[QueryCoordinator] = Nil
  ) {
    val received = new AtomicInteger
    private val endpoint = new CutsEndpoint(null, onMessage, patienceMs)
    val responses = new ConcurrentLinkedQueue[Either[Throwable, CutsReply]]

    private object Caller extends RpcCallContext {
      override def reply(response: Any): Unit = {
        responses.add(Right(CutsMessages.decode[CutsReply](response.asInstanceOf[Array[Byte]])))
        ()
      }
      override def sendFailure(e: Throwable): Unit = {
        responses.add(Left(e))
        ()
      }
      override def senderAddress: RpcAddress = RpcAddress("host", 1)
    }

    private def onMessage(message: CutsMessage): Either[CutsReply, QueryCoordinator] = {
      received.incrementAndGet()
      Right(if (message.location == "at") cuts else others.head)
    }

    def ask(task: Int, epoch: Long = 0, location: String = "at"): Unit =
      tell(Start(location, "run", TaskStart(task.toLong, 0L, task, epoch, Seq(part(task)))))

    def tell(message: CutsMessage): Unit =
      endpoint.receiveAndReply(Caller)(CutsMessages.encode(message))

    def submit(task: Int, partition: Int): Unit = {
      val delta = frame(part(partition), 2, task.toLong)
      val from = SenderInfo("1", "host", Usage.Zero.toBytes)
      tell(Deliver("at", "run", Delivery(delta.attempt, Seq(delta), Nil), from))
    }

    def opened: Int = responses.asScala.count(_.exists(_.isInstanceOf[StartReply]))

    def stop(): Unit = {
      endpoint.onStop()
      (cuts +: others).foreach(_.close())
    }
  }

  private def withTasks(slow: Slow, patienceMs: Long = 60_000)(body: TestDriver => Any): Unit = {
    val driver = new TestDriver(coordinator(slow), patienceMs)
    slow.guard = Some(driver.cuts)
    try {
      (0 until Tasks).foreach(driver.ask(_))
      assert(slow.isListing.await(Patience.Seconds, TimeUnit.SECONDS))
      body(driver)
      assert(!slow.wasHeld, "a request was sent while the coordinator's lock was held")
      ()
    } finally {
      slow.released.countDown()
      driver.stop()
    }
  }

  private def threads =
    Thread.getAllStackTraces.keySet.asScala.count(_.getName == "cleancut-coordinator")

  test("requests of tasks while a run begins are answered after one start, by few threads") {
    val slow = new Slow(isUnavailable = false)
    withTasks(slow) { driver =>
      assert(threads <= 32 && driver.responses.isEmpty)
      slow.released.countDown()
      eventually(assert(driver.responses.size == Tasks))
      assert(driver.responses.asScala.forall(_.exists(_.isInstanceOf[StartReply])))
      assert(threads <= 32 && driver.cuts.status.run.exists(_.generation == 1))
    }
  }

  test(
    "if the store is unavailable, one failure ends all waiting requests, and the next one retries"
  ) {
    val slow = new Slow(isUnavailable = true)
    withTasks(slow) { driver =>
      eventually(assert(driver.received.get == Tasks))
      slow.released.countDown()
      eventually(assert(driver.responses.size == Tasks))
      assert(
        driver.responses.asScala.forall(_.left.exists(_.getMessage.contains("is unavailable")))
      )
      val once = slow.listings.get
      assert(once < 5)
      driver.ask(0)
      eventually(assert(driver.responses.size == Tasks + 1))
      assert(slow.listings.get > once)
    }
  }

  test("a task that times out receives the reason") {
    withTasks(new Slow(isUnavailable = false), patienceMs = 1500) { driver =>
      eventually(assert(driver.responses.size >= Tasks - 1))
      assert(driver.responses.asScala.forall(_.exists {
        case Declined(why) => why.why.contains("run run to begin")
        case _             => false
      }))
    }
  }

  /** A run after epoch 0, with a store that blocks writes of objects with a name prefix. */
  private def afterEpoch0(name: String, others: Seq[QueryCoordinator] = Nil)(
      body: (Blocked, TestDriver) => Any
  ): Unit = {
    epoch(coordinator(store), "before", 0)
    val blocked = new Blocked(name)
    val driver = new TestDriver(coordinator(blocked), others = others)
    (driver.cuts +: others).foreach(_.begin("run"))
    try {
      body(blocked, driver)
      ()
    } finally {
      blocked.released.countDown()
      driver.stop()
    }
  }

  /** Regression: each task sent the request while it held the lock of all others. */
  test("tasks of the first epoch wait for one claim, and other messages of the query do not") {
    afterEpoch0("cuts/") { (blocked, driver) =>
      (0 until Tasks).foreach(driver.ask(_, epoch = 1))
      eventually(assert(blocked.blocked.get == 1 && driver.received.get == Tasks))
      driver.tell(Accepted("at", part(0), 1))
      driver.tell(Writer("at", "run"))
      driver.tell(Failed("at", "run", 9))
      eventually(assert(driver.responses.size == 3))
      assert(driver.cuts.status.run.exists(_.generation == 2) && threads <= 32)
      blocked.released.countDown()
      eventually(assert(driver.responses.size == Tasks + 3))
      assert(driver.opened == Tasks && blocked.blocked.get == 1)
      assert(archive.cuts.listed().seals.map(_.generation) == Seq(2L))
    }
  }

  test("a seal waits for the claim of its epoch, which has the same name") {
    afterEpoch0("cuts/") { (blocked, driver) =>
      driver.ask(0, epoch = 1)
      eventually(assert(blocked.blocked.get == 1))
      driver.cuts.hold("run", 1)
      for (p <- 0 to 1) {
        driver.ask(p, epoch = 1)
        driver.submit(task = p, partition = p)
      }
      eventually(assert(driver.responses.size == 4 && driver.opened == 2))
      val sealing = CompletableFuture.runAsync(() => driver.cuts.seal("run", 1))
      Thread.sleep(200)
      assert(!sealing.isDone)
      blocked.released.countDown()
      sealing.get(Patience.Seconds, TimeUnit.SECONDS)
      driver.cuts.commit("run", 1, "v1\n{}")
      assert(
        archive.cuts.readSeal(archive.cuts.listed().seals.head, before = None).exists(_.isClaim)
      )
    }
  }

  /** Regression: writes blocked the threads that all queries of the driver share. */
  test("a query's messages are answered while writes to another query's store are blocked") {
    val other = coordinator(storeAt("other"))
    afterEpoch0("segments/", others = Seq(other)) { (blocked, driver) =>
      (0 to 1).foreach(p => driver.ask(p, epoch = 1))
      eventually(assert(driver.opened == 2))
      (0 to 1).foreach(p => driver.submit(task = p, partition = p))
      // Each frame of an epoch that may be complete is written before the response to its task.
      eventually(assert(blocked.blocked.get > 0))
      for (task <- 2 until 100) driver.submit(task, partition = 0)
      eventually(assert(driver.received.get == 102))
      driver.ask(7, epoch = 0, location = "other")
      eventually(assert(driver.opened == 3))
      assert(blocked.blocked.get <= 4)
      blocked.released.countDown()
      eventually(assert(driver.responses.size == 103))
      assert(driver.responses.asScala.count(_.exists(_.isInstanceOf[DeliverReply])) == 100)
    }
  }

  test("a start may take as long as a request, although tasks time out earlier") {
    val slow = new Slow(isUnavailable = false, requestTimeoutMs = 60_000)
    withTasks(slow, patienceMs = 100) { driver =>
      eventually(assert(driver.received.get == Tasks))
      Clock.System.sleep(500, TimeUnit.MILLISECONDS)
      assert(driver.responses.isEmpty)
      slow.released.countDown()
      eventually(assert(driver.responses.size == Tasks))
      assert(driver.responses.asScala.forall(_.exists(_.isInstanceOf[StartReply])))
    }
  }
}
