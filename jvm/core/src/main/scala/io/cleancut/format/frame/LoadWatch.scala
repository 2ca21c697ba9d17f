package io.cleancut.format.frame

import io.cleancut.base.Clock

/** The phases of a version's load. */
sealed abstract class LoadPhase(private[format] val index: Int)

object LoadPhase {

  /** Finding the frames of the version: listings, cuts, parents in headers. */
  case object Find extends LoadPhase(0)

  /** Waiting for the bytes of frames. */
  case object Download extends LoadPhase(1)

  /** Comparing checksums and decompressing. */
  case object Decode extends LoadPhase(2)

  /** Applying records to the log and its indexes. */
  case object Index extends LoadPhase(3)

  private[format] val Count = 4
}

/**
 * Measures the phases of one load, which runs in one thread. The clock is read when the phase
 * changes: a few times per block of a frame, never per record.
 */
sealed abstract class LoadWatch {

  /** Enters a phase and returns the previous one. */
  def enter(phase: LoadPhase): LoadPhase

  /** Bytes of cuts that were read. */
  def addCutBytes(bytes: Long): Unit

  /** Bytes of a decoded block. */
  def decoded(bytes: Long): Unit

  /** The base of a remote store was in the local cache. */
  def countLocalBase(): Unit
}

object LoadWatch {

  /** For readers of frames that do not load a version. */
  object Off extends LoadWatch {
    override def enter(phase: LoadPhase): LoadPhase = phase
    override def addCutBytes(bytes: Long): Unit = ()
    override def decoded(bytes: Long): Unit = ()
    override def countLocalBase(): Unit = ()
  }

  /** A load that begins now in [[LoadPhase.Find]]. */
  final class Running(clock: Clock) extends LoadWatch {
    private val spentNs = new Array[Long](LoadPhase.Count)
    private var current: LoadPhase = LoadPhase.Find
    private var sinceNs = clock.monotonicNs()
    private var cutReadBytes = 0L
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

    override def addCutBytes(bytes: Long): Unit = cutReadBytes += bytes

    override def decoded(bytes: Long): Unit = ofBlocks += bytes

    override def countLocalBase(): Unit = fromHere += 1

    /** Nanoseconds until the last change of phase. */
    def spent(phase: LoadPhase): Long = spentNs(phase.index)

    def cutBytes: Long = cutReadBytes

    def decodedBytes: Long = ofBlocks

    def basesFoundHere: Long = fromHere
  }
}
