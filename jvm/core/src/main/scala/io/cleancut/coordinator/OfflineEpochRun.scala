package io.cleancut.coordinator

import io.cleancut.base.StoreId
import io.cleancut.coordinator.state.CarriedInFlight
import io.cleancut.format.{PackedChain, StoreCut}
import io.cleancut.format.cut.{Referred, SealedFrame, SinkEpochs}

/**
 * The epoch of an offline operation, which replaces the complete state. Its durable frames are in
 * the [[ReplacedEpoch]] of its ledger. Without state; requests are made without the lock of the
 * [[RunRegistry]].
 */
final private[coordinator] class OfflineEpochRun(
    runs: RunRegistry,
    frames: FrameCollector,
    stores: EpochStores
) {
  import runs.{clock, runtime, segmentsOf}

  /**
   * Declares that an epoch replaces the complete state with exactly these stores. It is not an
   * epoch of a query, but of an operation on its checkpoint.
   *
   * @param epoch
   *   the next epoch, or a later one; epochs in between have no cut
   * @param inFlight
   *   in-flight rows that it keeps
   * @param sinks
   *   published epochs that count after it
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
    val run = runs.requireOwner(runId, epoch)
    runs.checkOpen(run, epoch)
    runs.locked(run.replace(epoch, replaced, sinks))
    for (source <- inFlight if !source.isEmpty) {
      val (rows, reports) = source.frames(epoch + 1, clock)
      val placed = runtime.packer.write(segmentsOf(run, epoch), rows)
      val channels = placed.map { frame =>
        StoreCut(
          frame.name.store,
          PackedChain.of(Vector((frame.name.kind, frame.name.version, frame.place)))
        )
      }
      runs.locked {
        placed.foreach(run.ledger.ends.note)
        run.ledger.operate(_.copy(inFlight = Some(CarriedInFlight(channels, reports))))
      }
    }
  }

  /** Discards the operation of a running query before the offset log has an entry of its epoch. */
  def cancel(runId: String): Unit =
    runs.ifCurrent(runId).foreach(run => runs.locked(run.cancelReplacement()))

  /**
   * Adds bases to the epoch that reference chains of earlier epochs, and makes them durable.
   *
   * @param bases
   *   one for each store
   * @param segments
   *   segments that the bases reference
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FENCED
   */
  def refer(
      runId: String,
      epoch: Long,
      bases: Seq[SealedFrame],
      segments: Set[String]
  ): Unit = {
    val run = runs.requireOwner(runId, epoch)
    runs.checkOpen(run, epoch)
    val placed = runtime.packer.write(segmentsOf(run, epoch), bases)
    runs.locked {
      placed.foreach(run.ledger.ack)
      val referred = Referred(epoch + 1, segments.toSeq.sorted)
      run.ledger.operate(_.copy(referred = Some(referred)))
    }
  }

  /**
   * Makes the frames of the epoch durable, so that they can be read before the commit.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_EPOCH_INCOMPLETE, CLEANCUT_FENCED
   */
  def settle(runId: String, epoch: Long): Unit = {
    val run = runs.requireOwner(runId, epoch)
    frames.flush(run, epoch)
    val chains = stores.await(run, epoch, () => stores.closed(run, epoch, None))
    runs.locked(
      run.ledger.operate(_.copy(settled = chains.map(chain => chain.store -> chain).toMap))
    )
  }

  /** The chains that [[settle]] has made durable. */
  def settled(runId: String, epoch: Long): Seq[StoreCut] = {
    val run = runs.requireOwner(runId, epoch)
    runs.locked(run.ledger.operation.toSeq.flatMap(_.settled.values))
  }
}
