package io.cleancut.coordinator.state

import java.util.concurrent.{
  CompletableFuture,
  ExecutionException,
  Executor,
  TimeUnit,
  TimeoutException
}

import scala.util.control.NonFatal

/**
 * Writes the objects between two epochs of a run on another thread, one after the other: the cut of
 * the one, and the entries of Spark's logs that plan the next one (rules O15 and Q1). After a
 * failure it writes nothing more. The thread of the query begins each write, and waits for all of
 * them before it seals or commits, so that at most one cut is in the queue.
 *
 * @param threads
 *   performs the writes
 * @param beforeWait
 *   called by a thread that is about to wait for a write
 */
final private[cleancut] class EpochWriter(
    threads: Executor,
    beforeWait: CompletableFuture[_] => Unit
) {
  // Guarded by this.
  private var last = CompletableFuture.completedFuture(())

  /** Begins a write after those before it are done. Returns its end. */
  def begin(write: => Unit): CompletableFuture[Unit] = {
    val done = new CompletableFuture[Unit]
    val before = synchronized {
      val before = last
      last = done
      before
    }
    before.whenComplete { (_, failure) =>
      if (failure == null) threads.execute(() => perform(write, done))
      else {
        done.completeExceptionally(failure)
        ()
      }
    }
    done
  }

  private def perform(write: => Unit, done: CompletableFuture[Unit]): Unit =
    try {
      write
      done.complete(())
      ()
    } catch {
      // Includes errors that end the thread; otherwise the epoch would wait forever.
      case e: Throwable =>
        done.completeExceptionally(e)
        if (!NonFatal(e)) throw e
    }

  /** Completes when no write is in progress, also after a failure. */
  def ended: CompletableFuture[Unit] = latest.handle[Unit]((_, _) => ())

  /**
   * Returns when all writes are done.
   *
   * @throws Throwable
   *   the failure of a write
   */
  def await(): Unit = {
    val write = latest
    if (!write.isDone) beforeWait(write)
    try write.get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  /** Waits for all writes, up to a limit and regardless of failures. */
  def awaitEnd(limitMs: Long): Unit = {
    val write = ended
    if (!write.isDone) beforeWait(write)
    try write.get(limitMs, TimeUnit.MILLISECONDS)
    catch { case _: TimeoutException => () }
  }

  /**
   * @throws Throwable
   *   the failure of a write that has failed
   */
  def checkFailure(): Unit = if (latest.isCompletedExceptionally) await()

  /** Whether no write is in progress. */
  def isIdle: Boolean = latest.isDone

  private def latest = synchronized(last)
}
