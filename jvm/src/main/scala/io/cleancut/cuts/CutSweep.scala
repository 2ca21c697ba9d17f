package io.cleancut.cuts

import io.cleancut.format.CutLayout
import io.cleancut.objects.{ObjectInfo, ObjectKey}

/**
 * Deletes cuts beyond retention, and segments that no kept cut needs.
 *
 * A frame is named by the cuts from the one that adopts it until a base takes its place, without a
 * gap, and a base is adopted at most `baseMargin` epochs after that of its segment, unless it was
 * announced ([[BaseLedger]]). So a segment that lies as far as that behind the oldest kept cut, is
 * not named there, and is not spared, will be named by none that is kept: one cut and one listing
 * decide. Savepoints keep what they name.
 *
 * There is a gap where an owner has taken an epoch for committed by the cut of an earlier one (rule
 * O10): what its next cut goes on from stands in the cut before that epoch, and need not stand in
 * this one. So where the oldest kept cut and the next are of two owners, both decide.
 *
 * The same holds of pages: a root names one from the epoch that adopts it until others take its
 * place, and adopts none that is older than `baseMargin` epochs.
 *
 * An act may have its bases refer to what an earlier cut names, and is a run that owns the query
 * before it looks whether that cut is there. So a sweep whose run has been followed deletes nothing
 * but cuts: these the other has missed, or else is seen here. What has been referred to the last
 * cut lists, as it does late bases.
 *
 * Files of stores from before the first cut are needed by no cut: each store begins with a base
 * there. They go when the epochs without cuts are beyond retention.
 *
 * @param isFollowed
 *   whether another run owns the query by now
 */
final class CutSweep(archive: CutArchive, baseMargin: Long, isFollowed: () => Boolean) {

  /**
   * Keeps the cuts from `oldest` on.
   *
   * @param spared
   *   segments to be left alone, from what the owner knew before this began
   */
  def run(oldest: Long, spared: Set[String]): CutSweep.Swept = {
    val listed = archive.listed(since = oldest)
    val epochs = listed.epochs
    val cuts = epochs.filter(_ < oldest)
    // A seal has served once its epoch has a cut.
    val seals = listed.seals.filter(seal => epochs.lastOption.exists(seal.epoch <= _))
    val anchor = epochs.find(_ >= oldest).flatMap(archive.open(_))
    // Read before anything is deleted: what it names must be known.
    val next = for {
      known <- anchor
      epoch <- epochs.find(_ > known.head.epoch)
      // Of the same owner it goes on from the other.
      cut <- archive.open(epoch) if cut.head.run.generation != known.head.run.generation
    } yield cut
    val named = (anchor ++ next).flatMap(of => of.segments ++ of.pages).toSet
    // Cuts go first: a crash in between must not leave one whose segments are gone. Savepoints are
    // looked up after that: who pins a cut looks afterwards whether it is still there.
    archive.delete(cuts.map(epoch => ObjectKey(CutLayout.cut(epoch))))
    archive.delete(seals.map(name => ObjectKey(CutLayout.seal(name))))
    if (isFollowed()) CutSweep.Nothing.copy(cuts = cuts.size)
    else {
      val swept = parts(oldest, anchor, spared ++ named)
      swept.copy(cuts = cuts.size, keptBytes = swept.keptBytes.map(_ + listed.sizeBytes))
    }
  }

  /** What lies too far back to be needed, unless it is one of these. */
  private def parts(oldest: Long, anchor: Option[StoredCut], named: Set[String]) = {
    val pinned = archive.pinned().values.flatMap(of => of.segments ++ of.pages)
    val kept = named ++ pinned
    var keptBytes = 0L
    def garbage(of: => Seq[(Long, ObjectInfo)]) = anchor.toSeq.flatMap { cut =>
      val newest = Math.min(oldest, cut.head.epoch) - baseMargin
      val (over, needed) = of.partition { case (epoch, info) =>
        epoch < newest && !kept(info.key.name)
      }
      keptBytes += needed.map(_._2.sizeBytes).sum
      over.map(_._2.key)
    }
    val segments = garbage(archive.segmentInfos())
    archive.delete(segments)
    // After what they name is settled: a page that is gone would leave that unknown.
    val pages = garbage(archive.pageInfos())
    archive.delete(pages)
    val files = if (anchor.exists(_.head.epoch == oldest)) archive.storeFiles() else Nil
    archive.delete(files)
    val keptAll = anchor.map(_ => keptBytes)
    CutSweep.Swept(cuts = 0, segments.size, pages.size, files.size, keptAll)
  }
}

object CutSweep {

  /**
   * How many objects were deleted.
   *
   * @param storeFiles
   *   those from before the first cut
   * @param keptBytes
   *   the size of all cuts, seals, segments and pages that are left; None where not all of them
   *   were listed
   */
  final case class Swept(
      cuts: Int,
      segments: Int,
      pages: Int,
      storeFiles: Int,
      keptBytes: Option[Long]
  )

  private val Nothing = Swept(cuts = 0, segments = 0, pages = 0, storeFiles = 0, None)
}
