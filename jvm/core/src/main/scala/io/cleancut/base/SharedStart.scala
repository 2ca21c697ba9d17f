package io.cleancut.base

import java.util.concurrent.{CompletableFuture, ExecutionException, Executor}

import scala.annotation.tailrec

/**
 * Does for one run after another what its tasks have to wait for, once. All who ask meanwhile share
 * what comes of it; who asks after a failure tries again.
 *
 * @param begin
 *   may take long, and is called for one run at a time
 * @param beforeWait
 *   called by a thread that is about to wait for what another one does
 */
final private[cleancut] class SharedStart[A](
    begin: String => A,
    beforeWait: CompletableFuture[_] => Unit
) {
  import SharedStart.Start

  private var underWay = Option.empty[Start[A]]

  /** What comes of it, which holds no thread but one of `threads`. */
  def apply(runId: String, threads: Executor): CompletableFuture[A] = {
    val own = new Start[A](runId)
    val start = join(own)
    if (start eq own) threads.execute { () =>
      // Who waits is told.
      try carryOut(own)
      catch { case _: Throwable => () }
      ()
    }
    if (start.runId == runId) start.done
    else start.done.handle[Unit]((_, _) => ()).thenCompose[A](_ => apply(runId, threads))
  }

  /** The same for a thread that waits, and which does it itself where nobody else is at it. */
  @tailrec def get(runId: String): A = {
    val own = new Start[A](runId)
    val start = join(own)
    if (start eq own) carryOut(own)
    else if (start.runId == runId) await(start.done)
    else {
      await(start.done.handle[Unit]((_, _) => ()))
      get(runId)
    }
  }

  /** Returns when nobody is at it for this run, whatever has come of it. */
  def awaitOthers(runId: String): Unit = {
    val start = synchronized(underWay).filter(_.runId == runId)
    start.foreach(of => await(of.done.handle[Unit]((_, _) => ())))
  }

  private def join(own: Start[A]): Start[A] = synchronized {
    underWay = underWay.orElse(Some(own))
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

  /** An interrupt ends the thread that it is meant for, and not those that wait for it. */
  private def forOthers(runId: String, failure: Throwable): Throwable = failure match {
    case e: InterruptedException =>
      new IllegalStateException(s"the start of run $runId was interrupted", e)
    case e => e
  }
}
