package io.cleancut.objectstore

import java.util.concurrent.{ConcurrentLinkedQueue, CountDownLatch, Semaphore, TimeUnit}
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.testkit.Patience

class PartSenderSuite extends AnyFunSuite {
  import PartSenderSuite._

  test("parts are sent concurrently up to the limit, and all before the completion") {
    val upload = new GatedUpload
    val sender = new PartSender(upload)
    val sending = new Thread(() => (1 to 10).foreach(n => sender.send(Array(n.toByte))))
    sending.start()
    assert(upload.begun.tryAcquire(AtOnce, PatienceS, TimeUnit.SECONDS))
    upload.gate.countDown()
    sending.join()
    sender.complete()
    assert(upload.maxConcurrent.get == AtOnce)
    assert(upload.parts.size == 10 && upload.isComplete)
    val sent = upload.parts.asScala.map { case (number, body) => number -> body.toSeq }.toMap
    assert(sent == (1 to 10).map(n => n -> Seq(n.toByte)).toMap)
  }

  test("a failed part ends the upload, and the writer receives its error") {
    val upload = new GatedUpload(failing = Some(2))
    upload.gate.countDown()
    val sender = new PartSender(upload)
    val thrown = intercept[IllegalStateException] {
      (1 to 3).foreach(n => sender.send(Array(n.toByte)))
      sender.complete()
    }
    assert(thrown.getMessage == "part 2")
    sender.abort()
    assert(upload.isAborted && !upload.isComplete)
  }

  test("an upload is aborted after its last part in transit") {
    val upload = new GatedUpload
    val sender = new PartSender(upload)
    (1 to 2).foreach(n => sender.send(Array(n.toByte)))
    assert(upload.begun.tryAcquire(2, PatienceS, TimeUnit.SECONDS))
    val aborting = new Thread(() => sender.abort())
    aborting.start()
    assert(!upload.isAborted)
    upload.gate.countDown()
    aborting.join()
    assert(upload.isAborted && upload.sentWhenAborted == 2)
  }

  test("an abort that waits for a part can be interrupted") {
    val upload = new GatedUpload
    val sender = new PartSender(upload)
    sender.send(Array(1.toByte))
    assert(upload.begun.tryAcquire(1, PatienceS, TimeUnit.SECONDS))
    val interrupted = new CountDownLatch(1)
    val aborting = new Thread(() =>
      try sender.abort()
      catch { case _: InterruptedException => interrupted.countDown() }
    )
    aborting.start()
    aborting.interrupt()
    assert(interrupted.await(PatienceS, TimeUnit.SECONDS) && !upload.isAborted)
    upload.gate.countDown()
  }
}

object PartSenderSuite {
  private val AtOnce = 4
  private val PatienceS = Patience.Seconds

  /** An upload whose parts end only after the gate is open. */
  final private class GatedUpload(failing: Option[Int] = None) extends MultipartUpload {
    val gate = new CountDownLatch(1)
    val begun = new Semaphore(0)
    val maxConcurrent = new AtomicInteger
    val parts = new ConcurrentLinkedQueue[(Int, Array[Byte])]
    private val now = new AtomicInteger
    @volatile var isComplete = false
    @volatile var isAborted = false
    @volatile var sentWhenAborted = 0

    override def part(number: Int, body: Array[Byte]): Unit = {
      maxConcurrent.accumulateAndGet(now.incrementAndGet(), (a, b) => Math.max(a, b))
      begun.release()
      gate.await()
      now.decrementAndGet()
      if (failing.contains(number)) throw new IllegalStateException(s"part $number")
      parts.add((number, body))
      ()
    }

    override def complete(): Unit = isComplete = true

    override def abort(): Unit = {
      sentWhenAborted = parts.size
      isAborted = true
    }
  }
}
