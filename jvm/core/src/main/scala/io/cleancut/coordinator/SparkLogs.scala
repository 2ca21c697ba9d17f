package io.cleancut.coordinator

import io.cleancut.cutstore.gc.CutRetention

/** What the coordinator has to know of a query beside its cuts; Spark keeps it. */
trait SparkLogs extends AutoCloseable {
  def queryId(): Option[String]

  /**
   * The offset log's entry, verbatim. Spark writes it before the epoch's tasks run.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OFFSETS_MISSING
   */
  def offsets(epoch: Long): String

  /** The last epoch whose entry of the commit log is a file of its own. */
  def lastPlainCommit(): Option[Long]

  /** Which epochs can be gone back to. */
  def retention: CutRetention

  /** The run that asked has ended. */
  override def close(): Unit = ()
}
