package io.cleancut.testkit

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.execution.streaming.state.StateStore

/** The state stores that this JVM has loaded, and the threads of their maintenance. */
object LoadedStores {
  private val PatienceMs = 2000L

  /**
   * Closes all stores. Spark 4.0 holds a lock while it waits for running maintenance, which may
   * wait for the same lock. In this case the call is interrupted, which releases the lock, and
   * repeated.
   */
  def stop(): Unit =
    if (SPARK_VERSION.startsWith("4.0.")) stopWithin(PatienceMs) else StateStore.stop()

  @annotation.tailrec
  private def stopWithin(ms: Long): Unit = {
    val stopping = new Thread(() =>
      try StateStore.stop()
      catch { case _: InterruptedException => () }
    )
    stopping.start()
    stopping.join(ms)
    if (stopping.isAlive) {
      stopping.interrupt()
      stopping.join()
      stopWithin(ms)
    }
  }
}
