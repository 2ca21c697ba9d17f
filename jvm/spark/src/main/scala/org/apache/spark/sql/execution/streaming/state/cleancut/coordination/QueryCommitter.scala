package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.CompletableFuture

import scala.annotation.unused

import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.coordinator.state.Begun

/** Commits epochs of the query that owns this commit log. */
trait QueryCommitter {

  /**
   * The run of the calling thread takes ownership, if it is a query's thread. Spark's logs must be
   * read after this, to be consistent with the result.
   */
  def begin(): Option[Begun]

  /**
   * Performs an action at the start of the calling thread's run, which begins here if necessary:
   * once for each run and name. Has no effect in threads that do not belong to a query.
   */
  def atStart(name: String)(action: Begun => Unit): Unit

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED if another run owns the query
   */
  def checkOwner(): Unit

  /** The starts of the run's epochs. */
  def starts: Option[EpochStarts] = None

  /**
   * Writes the entry of an epoch in the offset log, possibly on another thread.
   *
   * @return
   *   completes when the entry exists
   */
  def plan(@unused epoch: Long)(write: => Unit): CompletableFuture[Unit] =
    QueryCommitter.now(write)

  /** Writes an entry of a source's log, possibly on another thread; as [[plan]]. */
  def record(write: => Unit): CompletableFuture[Unit] = QueryCommitter.now(write)

  /**
   * Commits an epoch, possibly while the next one runs.
   *
   * @param entry
   *   Spark's entry of the commit log
   * @param written
   *   called with the entry that counts when the epoch is committed
   * @return
   *   the entry that counts
   */
  def commit(epoch: Long, entry: String)(written: String => Unit): String

  /** Called when the entry of [[commit]] exists. Returns when the next epoch may begin. */
  def pause(): Unit = ()
}

object QueryCommitter {

  /** Writes on the calling thread. */
  def now(write: => Unit): CompletableFuture[Unit] = {
    write
    CompletableFuture.completedFuture(())
  }
}
