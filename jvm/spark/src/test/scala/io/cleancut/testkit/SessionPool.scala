package io.cleancut.testkit

import java.util.concurrent.ConcurrentLinkedQueue

import org.apache.spark.sql.SparkSession

/**
 * Sessions for many runs, each for one at a time. Spark keeps what it has for a session as long as
 * it lives, a listener among it that hears of every event of all sessions.
 */
final class SessionPool(spark: => SparkSession) {
  private val free = new ConcurrentLinkedQueue[Pooled]

  /** Runs something in a session that has these settings, and none of those before. */
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
    private val own = session.conf.getAll

    def reset(): Unit =
      for ((key, value) <- session.conf.getAll if !own.get(key).contains(value))
        own.get(key).fold(session.conf.unset(key))(session.conf.set(key, _))
  }
}
