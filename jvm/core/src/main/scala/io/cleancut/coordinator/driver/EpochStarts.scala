package io.cleancut.coordinator.driver

/**
 * Where the epochs of a query begin: with the entry of the log of offsets. Whoever wants a run to
 * end between two epochs holds the next one back before that entry is written.
 */
final class EpochStarts {
  // All guarded by this.
  private var isHeld = false
  private var writing = 0
  private var last = Option.empty[Long]
  // Whether the run has looked what is there. Before that it may plan an epoch of its own accord.
  private var isKnown = true

  /**
   * An entry is to be written; waits as long as epochs are held back.
   *
   * @throws java.lang.InterruptedException
   *   the query is stopped meanwhile
   */
  def begin(): Unit = synchronized {
    while (isHeld) wait()
    writing += 1
  }

  /** The entry of an epoch is there, or none was written. */
  def end(epoch: Option[Long]): Unit = synchronized {
    // Of a run that has ended meanwhile nothing is counted any more.
    writing = Math.max(writing - 1, 0)
    epoch.foreach(found)
    notifyAll()
  }

  /** The run has looked for what is there from before: the entry of this epoch is the last. */
  def looked(epoch: Option[Long]): Unit = synchronized {
    isKnown = true
    epoch.foreach(found)
  }

  private def found(epoch: Long): Unit = last = Some(last.fold(epoch)(Math.max(_, epoch)))

  /** A run begins, and looks for itself what is there. */
  def runBegins(): Unit = forget(isKnown = false)

  /** The run has ended. */
  def runEnded(): Unit = forget(isKnown = true)

  private def forget(isKnown: Boolean): Unit = synchronized {
    last = None
    writing = 0
    this.isKnown = isKnown
    notifyAll()
  }

  /** From when it returns no epoch begins until [[release]]. */
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
