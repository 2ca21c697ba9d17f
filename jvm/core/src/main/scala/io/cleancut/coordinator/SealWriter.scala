package io.cleancut.coordinator

import io.cleancut.base.StateVersion
import io.cleancut.coordinator.state.QueryRun
import io.cleancut.error.Errors
import io.cleancut.format.{SealName, StoreCut}
import io.cleancut.format.cut.Cut

/**
 * Writes the seals and claims of runs, each of which is created once. Without state; requests are
 * made without the lock of the [[RunRegistry]].
 */
final private[coordinator] class SealWriter(runs: RunRegistry) {
  import runs.{archive, clock}

  /** The seal of a run with these stores. */
  def of(
      run: QueryRun,
      epoch: Long,
      stores: Seq[StoreCut],
      offsets: String
  ): Cut = Cut(
    epoch,
    run.id,
    StateVersion.newId(clock),
    clock.wallMs(),
    commit = "",
    offsets,
    stores,
    timings = Map.empty
  )

  /**
   * Writes the seal of a run. A run that repeats a failed seal may find its own object, because an
   * attempt can fail after it has created the object. In that case the same decisions on the same
   * frames are sealed. The object cannot be replaced: a run with another result ends, and the next
   * run follows the object.
   */
  def write(run: QueryRun, seal: Cut): Unit = {
    val name = SealName(seal.epoch, seal.run.generation)
    if (!archive.cuts.seal(seal)) {
      val stored = archive.cuts.readSeal(name, runs.locked(run.ledger.lastCut))
      if (!stored.exists(hasSealed(_, seal))) {
        val owner =
          if (stored.exists(_.run == seal.run)) "this run, which sealed another result earlier"
          else "another run of the same generation"
        throw Errors.fenced(archive.location, seal.epoch, owner)
      }
    }
    runs.locked(run.sealWritten(name))
  }

  /** Whether an object is an earlier attempt of the same run with the same result. */
  private def hasSealed(stored: Cut, seal: Cut): Boolean =
    stored.run == seal.run && stored.isClaim == seal.isClaim && stored.output == seal.output &&
      stored.channels == seal.channels && versions(stored) == versions(seal)

  private def versions(cut: Cut) = cut.stores.map(store => store.store -> store.version).toMap
}
