package io.cleancut.coordinator.driver

import scala.collection.mutable

import io.cleancut.base.Clock

/**
 * A run that waits before it takes ownership of its query.
 *
 * @param sinceMs
 *   time at which the wait began
 * @param isStandby
 *   whether it takes the query when the query has no driver
 */
final case class ParkedRun(location: String, sinceMs: Long, isStandby: Boolean = false)

/**
 * The locations of this driver at which the next run waits before it takes ownership of its query.
 * Until then the run reads and writes nothing there, so another driver may run the query.
 */
final class ParkedRuns(clock: Clock) {
  // All guarded by this. By location: the run that waits, if it has arrived.
  private val parked = mutable.Map.empty[String, Option[ParkedRun]]

  /**
   * The next run at a location waits until [[release]].
   *
   * @return
   *   false if the location is parked already
   */
  def park(location: String): Boolean = synchronized {
    val isNew = !parked.contains(location)
    if (isNew) parked(location) = None
    isNew
  }

  def isParked(location: String): Boolean = synchronized(parked.contains(location))

  /** The run that waits at a location. */
  def find(location: String): Option[ParkedRun] = synchronized(parked.get(location).flatten)

  /** The runs that wait. */
  def all: Seq[ParkedRun] = synchronized(parked.values.flatten.toVector)

  /** Changes whether the run that waits at a location is a standby. */
  def setStandby(location: String, isStandby: Boolean): Unit = synchronized {
    find(location).foreach(run => parked(location) = Some(run.copy(isStandby = isStandby)))
  }

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
        parked(location) = Some(ParkedRun(location, clock.wallMs()))
        while (parked.contains(location)) wait()
      } catch {
        case e: InterruptedException =>
          parked -= location
          throw e
      }
  }
}
