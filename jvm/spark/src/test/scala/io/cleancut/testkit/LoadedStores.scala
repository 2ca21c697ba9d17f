package io.cleancut.testkit

import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.execution.streaming.state.StateStore

/** The state stores that this JVM has loaded, and the threads of their maintenance. */
object LoadedStores {
  private val PatienceMs = 2000L

  /**
   * Closes them all. Spark 4.0 waits with a lock for the maintenance that has begun, and that may
   * wait for the lock; so there it is interrupted, which releases the lock, and asked once more.
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
