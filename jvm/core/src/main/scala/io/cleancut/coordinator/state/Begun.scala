package io.cleancut.coordinator.state

import io.cleancut.cutstore.gc.GarbageCollector
import io.cleancut.format.cut.Cut

/**
 * The state that a run continues from.
 *
 * @param committed
 *   last committed epoch; -1 before the first
 * @param cut
 *   its cut, if it has one
 * @param generation
 *   generation of the run
 * @param isAlone
 *   whether no other run can write; otherwise an earlier one may still plan the next epoch and
 *   commit it
 * @param isSuccessor
 *   whether the run takes over from one that was active when this one started, so that its first
 *   epoch must be short
 * @param collector
 *   deletes unreferenced objects of the query; None if no objects may be deleted
 * @param isSingleEpoch
 *   whether the run ends with its first epoch, which then must process new input
 * @param cutEpochs
 *   epochs of all cuts that existed when the run had taken ownership, ascending; None if they are
 *   unknown
 */
final case class Begun(
    committed: Long,
    cut: Option[Cut],
    generation: Long,
    isAlone: Boolean,
    isSuccessor: Boolean = false,
    collector: Option[GarbageCollector] = None,
    isSingleEpoch: Boolean = false,
    cutEpochs: Option[Seq[Long]] = None
)
