package io.cleancut.coordinator.state

import io.cleancut.cutstore.gc.GarbageCollector
import io.cleancut.format.cut.Cut

/**
 * What a run goes on behind.
 *
 * @param committed
 *   the last epoch that is committed; -1 before the first
 * @param cut
 *   of that epoch, if it has one
 * @param generation
 *   its own
 * @param isAlone
 *   whether no other run can write any more; else one may still plan the next epoch, and commit it
 * @param collector
 *   deletes what its query does not need any more; None if nothing may
 * @param isSingleEpoch
 *   whether the run ends with its first epoch, which then must process new input
 */
final case class Begun(
    committed: Long,
    cut: Option[Cut],
    generation: Long,
    isAlone: Boolean,
    collector: Option[GarbageCollector] = None,
    isSingleEpoch: Boolean = false
)
