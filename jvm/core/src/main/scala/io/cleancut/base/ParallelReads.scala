package io.cleancut.base

import java.util.concurrent.{CompletableFuture, Executor, ExecutionException}

import scala.util.Try

/**
 * Performs independent reads concurrently. The calling thread performs one of them, and waits for
 * the others.
 *
 * @param threads
 *   executor of the other reads, which wait for no further reads
 * @param beforeWait
 *   called by a thread that is about to wait for another thread
 */
final class ParallelReads(
    threads: Executor,
    beforeWait: CompletableFuture[_] => Unit = _ => ()
) {

  /** Starts a read whose result, or error, is of no interest. */
  def start(read: => Unit): Unit = {
    begin(() => read)
    ()
  }

  /** The results of all reads, in their order. */
  def all[A](reads: Seq[() => A]): Seq[Try[A]] = {
    val others = reads.dropRight(1).map(begin(_))
    val last = reads.lastOption.map(read => Try(read()))
    others.map(read => Try(await(read))) ++ last
  }

  /**
   * The results of two reads. If both fail, the error is that of the first.
   *
   * @param first
   *   read by the calling thread, which may wait for further reads
   */
  def both[A, B](first: => A, second: => B): (A, B) = {
    val other = begin(() => second)
    val read = first
    (read, await(other))
  }

  private def begin[A](read: () => A): CompletableFuture[A] = {
    val done = new CompletableFuture[A]
    threads.execute { () =>
      try {
        done.complete(read())
        ()
      } catch {
        case e: Throwable =>
          done.completeExceptionally(e)
          ()
      }
    }
    done
  }

  private def await[A](done: CompletableFuture[A]): A = {
    if (!done.isDone) beforeWait(done)
    try done.get()
    catch { case e: ExecutionException => throw e.getCause }
  }
}

object ParallelReads {

  /** Largest number of concurrent reads in a process. */
  private val MaxReads = 16

  /** On threads that all queries of a process share. */
  val shared: ParallelReads =
    new ParallelReads(DaemonThreads.pool("cleancut-reads", MaxReads))
}
