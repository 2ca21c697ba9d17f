package io.cleancut.format.frame

import io.cleancut.base.Clock

/** What the load of a version spends its time on. */
sealed abstract class LoadPhase(private[format] val index: Int)

object LoadPhase {

  /** Which frames make the version up: listings, cuts, parents in headers. */
  case object Find extends LoadPhase(0)

  /** Waiting for the bytes of frames. */
  case object Download extends LoadPhase(1)

  /** Comparing with checksums, decompressing. */
  case object Decode extends LoadPhase(2)

  /** Applying records to the log and its indexes. */
  case object Index extends LoadPhase(3)

  private[format] val Count = 4
}

/**
 * Tells how long one load, which one thread does, was in which phase. The clock is read where the
 * phase changes: a few times for each block of a frame, never for a record.
 */
sealed abstract class LoadWatch {

  /** Goes over to a phase; returns the one before. */
  def enter(phase: LoadPhase): LoadPhase

  /** The cuts that had to be read have this many bytes. */
  def found(bytes: Long): Unit

  /** A block was decoded into this many bytes. */
  def decoded(bytes: Long): Unit

  /** The base of a store that is far away lay on the local disk. */
  def foundHere(): Unit
}

object LoadWatch {

  /** For who reads frames without loading a version. */
  object Off extends LoadWatch {
    override def enter(phase: LoadPhase): LoadPhase = phase
    override def found(bytes: Long): Unit = ()
    override def decoded(bytes: Long): Unit = ()
    override def foundHere(): Unit = ()
  }

  /** A load that begins now, with [[LoadPhase.Find]]. */
  final class Running(clock: Clock) extends LoadWatch {
    private val spentNs = new Array[Long](LoadPhase.Count)
    private var current: LoadPhase = LoadPhase.Find
    private var sinceNs = clock.monotonicNs()
    private var ofCuts = 0L
    private var ofBlocks = 0L
    private var fromHere = 0L

    override def enter(phase: LoadPhase): LoadPhase = {
      val nowNs = clock.monotonicNs()
      val before = current
      spentNs(before.index) += nowNs - sinceNs
      sinceNs = nowNs
      current = phase
      before
    }

    override def found(bytes: Long): Unit = ofCuts += bytes

    override def decoded(bytes: Long): Unit = ofBlocks += bytes

    override def foundHere(): Unit = fromHere += 1

    /** In nanoseconds, until the last change of phase. */
    def spent(phase: LoadPhase): Long = spentNs(phase.index)

    def foundBytes: Long = ofCuts

    def decodedBytes: Long = ofBlocks

    def basesFoundHere: Long = fromHere
  }
}
