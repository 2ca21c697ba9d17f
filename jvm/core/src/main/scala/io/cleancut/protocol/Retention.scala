package io.cleancut.protocol

import io.cleancut.format.{FrameKind, StoreLayout}

/** Decides which files of a store are unreferenced by retained versions. */
object Retention {

  /** A file that may be deleted, and its version number. */
  final case class Garbage(number: Long, name: String)

  /**
   * Files that are older than the newest anchor at or below `keepFrom`, oldest first. An anchor is
   * a number at which every ID has a base: any chain to a retained version ends there or later. So
   * the decision reads no file, and in doubt (two attempts, one base) keeps too much rather than
   * too little.
   *
   * @param maxNumbers
   *   largest number of version numbers to delete; the oldest are deleted first
   */
  def garbage(listing: StoreListing, keepFrom: Long, maxNumbers: Int): Seq[Garbage] = {
    val anchors = listing.bases.map(_.number).filter { number =>
      number <= keepFrom && listing.at(number).forall(listing.bases)
    }
    val all = anchors.maxOption.toSeq.flatMap(anchor => files(listing).filter(_.number < anchor))
    val numbers = all.map(_.number).distinct.sorted.take(maxNumbers).toSet
    all.filter(g => numbers(g.number)).sortBy(g => (g.number, g.name))
  }

  private def files(listing: StoreListing): Set[Garbage] = {
    def named(kind: FrameKind) = (version: io.cleancut.base.StateVersion) =>
      Garbage(version.number, StoreLayout.objectName(version, kind))
    listing.deltas.map(named(FrameKind.Delta)) ++ listing.bases.map(named(FrameKind.Base)) ++
      listing.temporaries.map(t => Garbage(t.number, t.name))
  }
}
