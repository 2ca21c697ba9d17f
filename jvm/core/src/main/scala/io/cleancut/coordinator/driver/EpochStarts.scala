package io.cleancut.coordinator.driver

/**
 * The starts of a query's epochs. An epoch begins with its entry in the offset log. A caller that
 * stops a run between two epochs holds the next one back before this entry is written.
 */
final class EpochStarts {
  // All guarded by this.
  private var isHeld = false
  private var writing = 0
  private var last = Option.empty[Long]
  // Whether the run has read the offset log. Before, it may plan an epoch without a request.
  private var isKnown = true

  /**
   * An entry is about to be written; waits while epochs are held back.
   *
   * @throws java.lang.InterruptedException
   *   if the query is stopped meanwhile
   */
  def begin(): Unit = synchronized {
    while (isHeld) wait()
    writing += 1
  }

  /** The entry of an epoch exists, or none was written. */
  def end(epoch: Option[Long]): Unit = synchronized {
    // A run that has ended meanwhile does not count.
    writing = Math.max(writing - 1, 0)
    epoch.foreach(record)
    notifyAll()
  }

  /** The run has read the offset log: the entry of this epoch is the last. */
  def recordListing(epoch: Option[Long]): Unit = synchronized {
    isKnown = true
    epoch.foreach(record)
  }

  private def record(epoch: Long): Unit = last = Some(last.fold(epoch)(Math.max(_, epoch)))

  /** A run begins, and reads the offset log itself. */
  def runBegins(): Unit = forget(isKnown = false)

  /** The run has ended. */
  def runEnded(): Unit = forget(isKnown = true)

  private def forget(isKnown: Boolean): Unit = synchronized {
    last = None
    writing = 0
    this.isKnown = isKnown
    notifyAll()
  }

  /** After it returns, no epoch begins until [[release]]. */
  def hold(): Unit = synchronized {
    isHeld = true
    while (writing > 0) wait()
  }

  def release(): Unit = synchronized {
    isHeld = false
    notifyAll()
  }

  /** Whether all epochs that have begun are committed, up to this one. */
  def isBehind(committed: Option[Long]): Boolean =
    synchronized(isKnown && last.forall(epoch => committed.exists(_ >= epoch)))
}
