package io.cleancut.coordinator.sim

import org.apache.spark.sql.execution.streaming.checkpointing.CheckpointFileManager
import org.apache.spark.sql.execution.streaming.state.cleancut.checkpointfiles.StartReads

import io.cleancut.coordinator.ForwardingStore
import io.cleancut.objectstore.{CreateResult, ObjectKey, ObjectPrefix, ObjectStore, WriterToken}
import io.cleancut.objectstore.readahead.{ReadAhead, ReadAheadStore}

/**
 * What one run of the query reads ahead of Spark, on an object store, and the defects of reading
 * too early or for another run.
 */
final class SimReadAhead(world: World, process: SimProcess) {
  import SimReadAhead._
  import world.{baton, defect, faults}

  private val isUsed = !world.plan.isOnFiles
  private val reads = kept.getOrElse(process.newReadAhead())
  private val view = {
    val correct = new ReadAheadStore(process.store, () => Some(reads))
    if (defect == Defect.AbsenceKept) new KeptAbsences(correct, process.store, reads) else correct
  }
  private var hasBegun = false

  /** A log of Spark as the run reads and writes it. */
  def files(log: String): CheckpointFileManager =
    if (isUsed) process.files(log, view) else process.files(log)

  /** The run is about to take ownership. */
  def beforeOwning(): Unit = if (defect == Defect.ListBeforeOwning && !hasBegun) {
    hasBegun = true
    fill()
  }

  /** The run owns the query, and has not planned the epoch that no other run may plan. */
  def beforeFence(): Unit = if (defect == Defect.AbsenceKept) fill()

  /** No other run can add an entry. */
  def afterFence(): Unit = defect match {
    case Defect.ListBeforeOwning | Defect.AbsenceKept => ()
    case Defect.ReadForEarlierRun                     =>
      if (kept.isEmpty) {
        fill()
        val copy = process.newReadAhead()
        copy.fill(Plan)
        process.readBefore = Some(copy)
      }
    case _ => fill()
  }

  /** The run has committed its first epoch. */
  def end(): Unit = reads.end()

  private def kept = process.readBefore.filter(_ => defect == Defect.ReadForEarlierRun)

  private def fill(): Unit = if (isUsed) {
    faults.count(Fault.ReadAhead)
    reads.fill(Plan)
    // Other runs continue before the results are used.
    if (Defect.ofReadAhead(defect) || faults.strikes(Fault.SlowStart, PerStart))
      (0 until world.random.nextInt(MaxSteps)).foreach(_ => baton.yieldNow())
  }
}

private object SimReadAhead {
  private val Plan = StartReads.ofRun(ObjectPrefix(Names.Checkpoint))

  /** A factor for starts, which are few. */
  private val PerStart = 20.0
  private val MaxSteps = 1500
}

/** A view that an existing object does not inform of a wrong absence. */
final private class KeptAbsences(view: ObjectStore, under: ObjectStore, reads: ReadAhead)
    extends ForwardingStore(view) {
  override def create(key: ObjectKey, body: Array[Byte], token: WriterToken): CreateResult = {
    val result = under.create(key, body, token)
    if (result == CreateResult.Created) reads.write(key)
    result
  }
}
