package io.cleancut.objectstore

import java.util.concurrent._

import scala.collection.mutable

import io.cleancut.base.DaemonThreads
import io.cleancut.objectstore.MultipartUpload

/**
 * Sends the parts of one upload several at a time, so that a large object takes the bandwidth that
 * the store gives to several requests. [[send]] blocks where too many parts are on their way, of
 * this upload or of all in the process: these hold their bytes in memory.
 *
 * For one thread.
 */
final class PartSender(upload: MultipartUpload) {
  import PartSender._

  private val own = new Semaphore(PartsAtOnce)
  private val sent = mutable.Buffer.empty[CompletableFuture[Void]]
  private var parts = 0

  /**
   * Sends the next part. One that has failed is told of by a later call, or by [[complete]].
   */
  def send(body: Array[Byte]): Unit = {
    sent.filter(_.isCompletedExceptionally).foreach(await)
    own.acquire()
    all.acquire()
    parts += 1
    val number = parts
    sent += CompletableFuture.runAsync(
      () =>
        try upload.part(number, body)
        finally {
          all.release()
          own.release()
        },
      threads
    )
    ()
  }

  /** Waits for all parts, and makes the object appear. */
  def complete(): Unit = {
    sent.foreach(await)
    upload.complete()
  }

  /**
   * Drops what was sent, once no part is being sent.
   *
   * @throws InterruptedException
   *   the upload is left to the removal of incomplete uploads then, since a part may still arrive
   */
  def abort(): Unit = {
    sent.foreach(part => part.handle[Unit]((_, _) => ()).get())
    upload.abort()
  }

  private def await(part: CompletableFuture[Void]): Unit =
    try {
      part.get()
      ()
    } catch { case e: ExecutionException => throw e.getCause }
}

private object PartSender {
  private val PartsAtOnce = 4

  /** Parts of all uploads of a process that are in memory. */
  private val MaxParts = 8
  private val IdleMs = 60000L

  private val all = new Semaphore(MaxParts)
  private val threads = new ThreadPoolExecutor(
    MaxParts,
    MaxParts,
    IdleMs,
    TimeUnit.MILLISECONDS,
    new LinkedBlockingQueue[Runnable],
    DaemonThreads.named("cleancut-part-upload")
  )
  threads.allowCoreThreadTimeOut(true)
}
