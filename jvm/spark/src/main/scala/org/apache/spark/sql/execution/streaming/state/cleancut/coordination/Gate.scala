package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import io.cleancut.coordinator.driver.EpochStarts
import io.cleancut.coordinator.state.Begun

/** Commits epochs of the query whose commit log this is. */
trait Gate {

  /**
   * The run of the calling thread takes the ownership, if that is a query's own thread. What Spark
   * reads of its logs afterwards must agree with what this returns.
   */
  def begin(): Option[Begun]

  /**
   * Does something at the start of the calling thread's run, which begins here if it has not yet:
   * once for each run and name, and nothing in a thread that is not a query's own.
   */
  def atStart(name: String)(act: Begun => Unit): Unit

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, if another run owns the query by now
   */
  def checkOwner(): Unit

  /** Where the epochs of the run begin. */
  def starts: Option[EpochStarts] = None

  /**
   * @param entry
   *   Spark's entry of the commit log
   * @return
   *   the one that counts
   */
  def commit(epoch: Long, entry: String): String

  /** What [[commit]] gave is there. Returns when the next epoch may begin. */
  def rest(): Unit = ()
}
