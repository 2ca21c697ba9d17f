package org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi

import io.cleancut.error.CleancutException

/**
 * Converts errors at the boundary to the caller of `start()`.
 *
 * PySpark and Spark Connect show an `IllegalArgumentException` by its message alone, and an
 * exception class that they do not know by its Java stack. The error of Cleancut is the cause.
 */
object StartErrors {

  /**
   * @throws java.lang.IllegalArgumentException
   *   the message of the error that `body` throws, with the error as its cause
   */
  def convert[A](body: => A): A =
    try body
    catch { case e: CleancutException => throw new IllegalArgumentException(e.getMessage, e) }
}
