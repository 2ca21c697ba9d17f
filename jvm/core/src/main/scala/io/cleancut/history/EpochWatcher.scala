package io.cleancut.history

/** Who is told of the epochs of a query as they are committed. */
trait EpochWatcher {

  /** Of the query's checkpoint. */
  def location: String

  /** Of the query, if it has one. */
  def name: Option[String]

  /** What the driver has lived through since this was asked for last; no request. */
  def health(): EpochHealth

  /**
   * An epoch is committed. Returns at once.
   *
   * @param record
   *   draws up what there is to tell, which may take a while, and is asked for once
   */
  def committed(record: () => EpochRecord): Unit

  /** Which of the epochs that it was told of were slow, as far as it has judged. */
  def slow: SlowTally

  /**
   * The run has ended. What has been told is noted before this returns.
   *
   * @param isStored
   *   whether the checkpoint is there; called right before a write
   */
  def close(isStored: () => Boolean): Unit
}
