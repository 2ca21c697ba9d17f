package io.cleancut.cuts

import java.util.concurrent.{CompletableFuture, ExecutionException}

/**
 * Begins one run after another, each in the thread that asks for it first. All who ask meanwhile
 * wait for that, and share what comes of it; who asks after a failure tries again.
 *
 * @param begin
 *   may take long, and is called for one run at a time
 * @param beforeWait
 *   called by a thread that is about to wait for another one's start
 */
final private[cuts] class SharedStart[A](
    begin: String => A,
    beforeWait: CompletableFuture[_] => Unit
) {
  import SharedStart.Start

  private var underWay = Option.empty[Start[A]]

  /** What comes of the start, at once where nobody else has begun one. */
  def apply(runId: String): CompletableFuture[A] = {
    val own = new Start[A](runId)
    val start = synchronized {
      underWay = underWay.orElse(Some(own))
      underWay.get
    }
    if (start eq own) carryOut(own)
    if (start.runId == runId) start.done
    else start.done.handle[Unit]((_, _) => ()).thenCompose[A](_ => apply(runId))
  }

  /** The same for a thread that waits. */
  def get(runId: String): A = {
    val begun = apply(runId)
    if (!begun.isDone) beforeWait(begun)
    try begun.get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  private def carryOut(start: Start[A]): Unit =
    try {
      val begun = begin(start.runId)
      synchronized { underWay = None }
      start.done.complete(begun)
      ()
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
