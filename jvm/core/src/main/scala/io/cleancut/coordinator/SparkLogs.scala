package io.cleancut.coordinator

import io.cleancut.cutstore.gc.CutRetention

/** The part of Spark's logs that the coordinator requires. */
trait SparkLogs extends AutoCloseable {
  def queryId(): Option[String]

  /**
   * The offset log's entry, verbatim. Spark writes it before the epoch's tasks run.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OFFSETS_MISSING
   */
  def offsets(epoch: Long): String

  /** The last epoch whose commit log entry is a separate file. */
  def lastPlainCommit(): Option[Long]

  /** The epochs to which a rollback is possible. */
  def retention: CutRetention

  /** The run that used the logs has ended. */
  override def close(): Unit = ()
}
