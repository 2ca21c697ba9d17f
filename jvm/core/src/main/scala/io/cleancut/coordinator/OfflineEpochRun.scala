package io.cleancut.coordinator

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.TakenAlong
import io.cleancut.format.{PackedChain, StoreCut}
import io.cleancut.format.cut.{Referred, SealedFrame, SinkEpochs}

/**
 * The epoch of an offline operation, which replaces all of the state. What it has made durable is
 * in the [[ReplacedEpoch]] of its ledger. Without state; requests are made without the lock of the
 * [[RunRegistry]].
 */
final private[coordinator] class OfflineEpochRun(
    runs: RunRegistry,
    frames: FrameCollector,
    stores: EpochStores
) {
  import runs.{clock, runtime, segmentsOf}

  /**
   * An epoch makes all of the state anew, in these stores and no others: it is not one of a query,
   * but of an act on its checkpoint.
   *
   * @param epoch
   *   the next, or a later one; those before it will have no cut
   * @param inFlight
   *   the rows in flight that it takes along
   * @param sinks
   *   the published epochs that count after it
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED, CLEANCUT_FRAME_CORRUPTED
   */
  def replace(
      runId: String,
      epoch: Long,
      replaced: Set[StoreId],
      inFlight: Option[InFlightSource],
      sinks: SinkEpochs
  ): Unit = {
    val run = runs.believed(runId, epoch)
    runs.checkOpen(run, epoch)
    runs.locked(run.replace(epoch, replaced, sinks))
    for (source <- inFlight if !source.isEmpty) {
      val (rows, reports) = source.frames(epoch + 1, clock)
      val placed = runtime.packer.write(segmentsOf(run, epoch), rows)
      val channels = placed.map { of =>
        StoreCut(of.name.store, PackedChain.of(Vector((of.name.kind, of.name.version, of.place))))
      }
      runs.locked {
        placed.foreach(run.ledger.ends.note)
        run.ledger.operate(_.copy(inFlight = Some(TakenAlong(channels, reports))))
      }
    }
  }

  /**
   * Gives such an epoch bases that refer to chains of earlier ones, and makes them durable.
   *
   * @param bases
   *   one for each of its stores
   * @param segments
   *   that these lead to
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def refer(
      runId: String,
      epoch: Long,
      bases: Seq[SealedFrame],
      segments: Set[String]
  ): Unit = {
    val run = runs.believed(runId, epoch)
    runs.checkOpen(run, epoch)
    val placed = runtime.packer.write(segmentsOf(run, epoch), bases)
    runs.locked {
      placed.foreach(run.ledger.ack)
      val referred = Referred(epoch + 1, segments.toSeq.sorted)
      run.ledger.operate(_.copy(referred = Some(referred)))
    }
  }

  /**
   * Makes durable what is there of such an epoch, so that it can be read before it is committed.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED
   */
  def settle(runId: String, epoch: Long): Unit = {
    val run = runs.believed(runId, epoch)
    frames.flush(run, epoch)
    val chains = stores.await(run, epoch, () => stores.closed(run, epoch, None))
    runs.locked(run.ledger.operate(_.copy(settled = chains.map(of => of.store -> of).toMap)))
  }

  /** What [[settle]] has found. */
  def settled(runId: String, epoch: Long): Seq[StoreCut] = {
    val run = runs.believed(runId, epoch)
    runs.locked(run.ledger.operation.toSeq.flatMap(_.settled.values))
  }
}
