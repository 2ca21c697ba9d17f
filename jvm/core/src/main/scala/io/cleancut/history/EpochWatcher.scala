package io.cleancut.history

/** Receives the epochs of a query when they are committed. */
trait EpochWatcher {

  /** The location of the query's checkpoint. */
  def location: String

  /** The name of the query, if it has one. */
  def name: Option[String]

  /** Spark's measurements of the epoch that is about to be committed; makes no request. */
  def trigger(epoch: Long): Option[TriggerTimes]

  /** The driver's health since the last call; makes no request. */
  def health(): EpochHealth

  /**
   * An epoch is committed. Returns immediately.
   *
   * @param record
   *   creates the record, which may be slow, and is called once
   */
  def committed(record: () => EpochRecord): Unit

  /** The slow epochs so far. */
  def slow: SlowTally

  /**
   * The run has ended. All received epochs are written before this returns.
   *
   * @param isStored
   *   whether the checkpoint exists; called right before a write
   */
  def close(isStored: () => Boolean): Unit
}
