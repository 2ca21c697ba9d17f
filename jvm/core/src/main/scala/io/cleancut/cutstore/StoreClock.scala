package io.cleancut.cutstore

import java.util.concurrent.TimeUnit

import io.cleancut.base.Clock

/**
 * The current time of the object store, for comparisons with the write times of objects: the write
 * time of a run's owner object, and the monotonic time since. The wall clock of the host is not
 * used, because it may differ from the clock of the store.
 *
 * Created after the owner object, so that the result is never ahead of the store.
 */
final class StoreClock(owners: Owners, generation: Long, clock: Clock) {
  private val ownedNs = clock.monotonicNs()
  private lazy val ownedMs = owners.takenMs(generation)

  /** Milliseconds since 1970; None if the owner object is missing. One request per run. */
  def nowMs(): Option[Long] =
    ownedMs.map(_ + TimeUnit.NANOSECONDS.toMillis(clock.monotonicNs() - ownedNs))
}
