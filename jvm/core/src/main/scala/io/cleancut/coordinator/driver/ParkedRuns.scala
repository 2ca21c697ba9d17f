package io.cleancut.coordinator.driver

import scala.collection.mutable

/**
 * The locations of this driver at which the next run waits before it takes ownership of its query.
 * Until then the run reads and writes nothing there, so another driver may run the query.
 */
final class ParkedRuns {
  // All guarded by this. By location: whether a run waits.
  private val parked = mutable.Map.empty[String, Boolean]

  /**
   * The next run at a location waits until [[release]].
   *
   * @return
   *   false if the location is parked already
   */
  def park(location: String): Boolean = synchronized {
    val isNew = !parked.contains(location)
    if (isNew) parked(location) = false
    isNew
  }

  def isParked(location: String): Boolean = synchronized(parked.contains(location))

  /** Whether a run waits at a location. */
  def isWaiting(location: String): Boolean = synchronized(parked.getOrElse(location, false))

  /** Lets the run at a location continue, or the next one not wait. */
  def release(location: String): Unit = synchronized {
    parked -= location
    notifyAll()
  }

  /**
   * The run of the calling thread is about to take ownership; waits while the location is parked.
   *
   * @throws java.lang.InterruptedException
   *   if the run is stopped meanwhile; the location is not parked any more
   */
  def await(location: String): Unit = synchronized {
    if (parked.contains(location))
      try {
        parked(location) = true
        while (parked.contains(location)) wait()
      } catch {
        case e: InterruptedException =>
          parked -= location
          throw e
      }
  }
}
