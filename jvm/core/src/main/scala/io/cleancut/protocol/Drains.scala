package io.cleancut.protocol

import java.util.concurrent.TimeUnit
import io.cleancut.conf.Capture

/**
 * The allowed duration of epochs without new input in one run. In such an epoch most tasks have
 * nothing to do, so a task that processes in-flight rows is a straggler immediately. No new input
 * waits for it, and overtaking it costs the fixed part of an epoch and another write of its
 * remaining rows. But new input may arrive meanwhile and must not wait for the complete backlog. So
 * stragglers may continue for the duration that the last epoch with input would have had without
 * its stragglers, which new input has to wait for in any case. The minimum is one second, because
 * some epochs take almost no time. Pure: the caller passes all times.
 */
final class Drains {
  import Drains._

  private var usualNs = 0L

  /**
   * An epoch is committed.
   *
   * @param onTimeNs
   *   time from its first task to the last arrival of a task that was not overtaken
   */
  def recordEpoch(capture: Capture, onTimeNs: Long): Unit =
    if (capture.drainNs.isEmpty) usualNs = onTimeNs

  /** Whether the stragglers of an epoch of this age may continue for now. */
  def mayContinue(capture: Capture, ageNs: Long): Boolean =
    capture.drainNs.exists(least => ageNs < math.max(math.max(least, usualNs), LeastNs))
}

object Drains {
  private val LeastNs = TimeUnit.SECONDS.toNanos(1)
}
