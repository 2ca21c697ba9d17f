package io.cleancut.coordinator.state

import java.util.concurrent.{CompletableFuture, ExecutionException, Executor}

import scala.util.control.NonFatal

/**
 * Writes entries of the offset log while the first steps of their epochs run (rule O15). The thread
 * of the query begins each write, after the one before is done.
 *
 * @param threads
 *   performs the writes
 * @param beforeWait
 *   called by a thread that is about to wait for a write
 */
final private[cleancut] class EntryWriter(
    threads: Executor,
    beforeWait: CompletableFuture[_] => Unit
) {
  import EntryWriter._

  @volatile private var last = Option.empty[Write]

  /** Begins the write of an epoch's entry. Returns its end. */
  def begin(epoch: Long)(write: => Unit): CompletableFuture[Unit] = {
    val done = new CompletableFuture[Unit]
    last = Some(Write(epoch, done))
    threads.execute { () =>
      try {
        write
        done.complete(())
      } catch {
        // Includes errors that end the thread; otherwise the epoch would wait forever.
        case e: Throwable =>
          done.completeExceptionally(e)
          if (!NonFatal(e)) throw e
      }
      ()
    }
    done
  }

  /** Completes when no write of this epoch's entry is in progress. */
  def ended(epoch: Long): CompletableFuture[Unit] =
    of(epoch).fold(Done)(_.done.handle[Unit]((_, _) => ()))

  /**
   * Returns when the entry of the epoch exists.
   *
   * @throws Throwable
   *   the failure of its write
   */
  def await(epoch: Long): Unit = of(epoch).foreach { write =>
    if (!write.done.isDone) beforeWait(write.done)
    try write.done.get()
    catch { case e: ExecutionException => throw e.getCause }
  }

  /** Whether no write is in progress. */
  def isIdle: Boolean = last.forall(_.done.isDone)

  private def of(epoch: Long) = last.filter(_.epoch == epoch)
}

private object EntryWriter {
  final private case class Write(epoch: Long, done: CompletableFuture[Unit])

  private val Done = CompletableFuture.completedFuture(())
}
