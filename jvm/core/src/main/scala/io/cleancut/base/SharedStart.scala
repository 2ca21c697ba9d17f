package io.cleancut.base

import java.util.concurrent.{CompletableFuture, ExecutionException, Executor}

import scala.annotation.tailrec

/**
 * Performs the start of a run once, while its tasks wait. Callers during a start share its result;
 * a caller after a failure tries again.
 *
 * @param begin
 *   the start, which may be slow; called for one run at a time
 * @param beforeWait
 *   called by a thread that is about to wait for another thread
 */
final private[cleancut] class SharedStart[A](
    begin: String => A,
    beforeWait: CompletableFuture[_] => Unit
) {
  import SharedStart.Start

  private var underWay = Option.empty[Start[A]]

  /** The future result. It occupies no thread except one of `threads`. */
  def apply(runId: String, threads: Executor): CompletableFuture[A] = {
    val started = new Start[A](runId)
    val start = join(started)
    if (start eq started) threads.execute { () =>
      // The waiting callers receive the error.
      try carryOut(started)
      catch { case _: Throwable => () }
      ()
    }
    if (start.runId == runId) start.done
    else start.done.handle[Unit]((_, _) => ()).thenCompose[A](_ => apply(runId, threads))
  }

  /**
   * The same for a caller that waits, and that performs the start itself if no other thread does.
   */
  @tailrec def get(runId: String): A = {
    val started = new Start[A](runId)
    val start = join(started)
    if (start eq started) carryOut(started)
    else if (start.runId == runId) await(start.done)
    else {
      await(start.done.handle[Unit]((_, _) => ()))
      get(runId)
    }
  }

  /** Returns when no thread performs the start of this run, regardless of the result. */
  def awaitOthers(runId: String): Unit = {
    val start = synchronized(underWay).filter(_.runId == runId)
    start.foreach(running => await(running.done.handle[Unit]((_, _) => ())))
  }

  private def join(started: Start[A]): Start[A] = synchronized {
    underWay = underWay.orElse(Some(started))
    underWay.get
  }

  private def await[B](done: CompletableFuture[B]): B = {
    if (!done.isDone) beforeWait(done)
    try done.get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  private def carryOut(start: Start[A]): A =
    try {
      val begun = begin(start.runId)
      synchronized { underWay = None }
      start.done.complete(begun)
      begun
    } catch {
      case e: Throwable =>
        synchronized { underWay = None }
        start.done.completeExceptionally(SharedStart.forOthers(start.runId, e))
        throw e
    }
}

private object SharedStart {
  final private class Start[A](val runId: String) {
    val done = new CompletableFuture[A]
  }

  /** An interrupt ends the interrupted thread, but not the waiting ones. */
  private def forOthers(runId: String, failure: Throwable): Throwable = failure match {
    case e: InterruptedException =>
      new IllegalStateException(s"the start of run $runId was interrupted", e)
    case e => e
  }
}
