package io.cleancut.testkit

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.sql.SparkSession

/**
 * A pool of sessions for many runs; each session has one run at a time. Spark never releases the
 * resources of a session, which include a listener for the events of all sessions.
 */
final class SessionPool(spark: => SparkSession) {
  private val free = new ConcurrentLinkedQueue[Pooled]

  /** Runs `body` in a session with exactly these settings. */
  def use[A](settings: Map[String, String])(body: SparkSession => A): A = {
    val pooled = Option(free.poll()).getOrElse(new Pooled(spark.newSession()))
    settings.foreach { case (key, value) => pooled.session.conf.set(key, value) }
    try body(pooled.session)
    finally {
      pooled.reset()
      free.add(pooled)
      ()
    }
  }

  final private class Pooled(val session: SparkSession) {
    private val defaults = session.conf.getAll

    def reset(): Unit =
      for ((key, value) <- session.conf.getAll if !defaults.get(key).contains(value))
        defaults.get(key).fold(session.conf.unset(key))(session.conf.set(key, _))
  }
}
