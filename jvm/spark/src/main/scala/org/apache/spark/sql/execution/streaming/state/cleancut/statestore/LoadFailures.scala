package org.apache.spark.sql.execution.streaming.state.cleancut.statestore

import org.apache.hadoop.fs.Path

import org.apache.spark.sql.errors.QueryExecutionErrors
import org.apache.spark.sql.execution.streaming.state.cleancut.sparkapi.SparkCalls

import io.cleancut.error.{CleancutException, Errors}

/** Errors of the provider if a version cannot be loaded. */
private[statestore] object LoadFailures {
  def beforeInit(provider: String): Throwable =
    Errors.storeClosed(provider, "getStore before init")

  /** The error that Spark's providers throw; the cause has the missing object. */
  def ofSpark(location: => String, version: Long, failure: Throwable): Throwable =
    failure match {
      case e: CleancutException if isMissing(version, e) =>
        QueryExecutionErrors.failedToReadStreamingStateFileError(new Path(location), e)
      case e => SparkCalls.cannotLoad(e)
    }

  /** Whether the version itself is missing, and not an earlier one in its chain. */
  private def isMissing(version: Long, e: CleancutException): Boolean = e.errorId match {
    case "CLEANCUT_CHECKPOINT_NOT_FOUND" => true
    case "CLEANCUT_FRAME_MISSING"        => e.params.contains("version" -> version.toString)
    case _                               => false
  }
}
