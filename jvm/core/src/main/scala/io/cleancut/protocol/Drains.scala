package io.cleancut.protocol

import java.util.concurrent.TimeUnit
import io.cleancut.conf.Capture

/**
 * How long the epochs of one run go on that have no new input. In such an epoch most tasks have
 * nothing to do, so that one that takes up rows in flight is a straggler at once; yet nobody waits
 * for it, and to cut it costs an epoch's fixed share and the rest of its rows written again. But
 * new input may come meanwhile, and is not to wait for all of the backlog. So stragglers are let go
 * on for as long as the last epoch that had input would have taken without its own, which is what
 * new input may have to wait for in any case; and for a second, since there are epochs that take
 * next to nothing. Pure: it is told all times.
 */
final class Drains {
  import Drains._

  private var usualNs = 0L

  /**
   * An epoch is committed.
   *
   * @param onTimeNs
   *   from its first task to the last arrival of one that was not overtaken
   */
  def ended(capture: Capture, onTimeNs: Long): Unit =
    if (capture.drainNs.isEmpty) usualNs = onTimeNs

  /** Whether the stragglers of an epoch of this age are let go on for now. */
  def goesOn(capture: Capture, ageNs: Long): Boolean =
    capture.drainNs.exists(least => ageNs < math.max(math.max(least, usualNs), LeastNs))
}

object Drains {
  private val LeastNs = TimeUnit.SECONDS.toNanos(1)
}
