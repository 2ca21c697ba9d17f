package io.cleancut.protocol

import io.cleancut.StateVersion
import io.cleancut.format.FrameKind

/** Decides which frames of a store no version that is kept needs. */
object Retention {

  /** A frame that may be deleted. */
  final case class Garbage(version: StateVersion, kind: FrameKind)

  /**
   * Frames that are older than the newest anchor at or below `keepFrom`. An anchor is a number at
   * which every id has a base: whatever chain leads to a kept version, it ends there or later. So
   * nothing has to be read to decide, and a doubtful case (two attempts, one base) keeps too much,
   * not too little.
   */
  def garbage(listing: StoreListing, keepFrom: Long): Seq[Garbage] = {
    val anchors = listing.bases.map(_.number).filter { number =>
      number <= keepFrom && listing.at(number).forall(listing.bases)
    }
    anchors.maxOption.toSeq.flatMap { anchor =>
      val deltas = listing.deltas.filter(_.number < anchor).map(Garbage(_, FrameKind.Delta))
      val bases = listing.bases.filter(_.number < anchor).map(Garbage(_, FrameKind.Base))
      (deltas ++ bases).toSeq.sortBy(g => (g.version.number, g.version.id, g.kind.extension))
    }
  }
}
