package io.cleancut.objectstore

import java.util.concurrent._

import scala.collection.mutable

import io.cleancut.base.DaemonThreads
import io.cleancut.objectstore.MultipartUpload

/**
 * Sends several parts of one upload concurrently, so that a large object uses the bandwidth of
 * several requests. [[send]] blocks if too many parts of this upload, or of all uploads in the
 * process, are being sent, because their bytes are in memory.
 *
 * For one thread.
 */
final class PartSender(upload: MultipartUpload) {
  import PartSender._

  private val permits = new Semaphore(PartsAtOnce)
  private val sent = mutable.Buffer.empty[CompletableFuture[Void]]
  private var parts = 0

  /** Sends the next part. A later call, or [[complete]], throws the error of a failed part. */
  def send(body: Array[Byte]): Unit = {
    sent.filter(_.isCompletedExceptionally).foreach(await)
    permits.acquire()
    all.acquire()
    parts += 1
    val number = parts
    sent += CompletableFuture.runAsync(
      () =>
        try upload.part(number, body)
        finally {
          all.release()
          permits.release()
        },
      threads
    )
    ()
  }

  /** Waits for all parts, and assembles the object. */
  def complete(): Unit = {
    sent.foreach(await)
    upload.complete()
  }

  /**
   * Deletes the sent parts, once no part is being sent.
   *
   * @throws InterruptedException
   *   the upload is then left to the removal of incomplete uploads, because a part may still arrive
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

  /** Limit of the parts of all uploads in the memory of a process. */
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
