package io.cleancut.cutstore.gc

import io.cleancut.cutstore.{CutArchive, CutsListed, StoredCut}
import io.cleancut.format.{CutLayout, SealName}
import io.cleancut.objectstore.{ObjectInfo, ObjectKey}

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
 * The same holds of pages: a cut names one from the epoch that adopts it until others take its
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
 * One instance serves all sweeps of a run, one at a time. A sweep lists only the epochs that have
 * come within its range since the sweep before it, and knows from that one which older objects are
 * left.
 *
 * @param isFollowed
 *   whether another run owns the query by now
 */
final class CutSweep(archive: CutArchive, baseMargin: Long, isFollowed: () => Boolean) {
  import CutSweep._

  private val savepoints = new SavepointIndex(archive)
  private var progress = Progress.Start

  /** The savepoints that could not be read in the last sweep. */
  def unreadable: Seq[UnreadableSavepoint] = savepoints.unreadable

  /**
   * Keeps the cuts from `oldest` on.
   *
   * @param spared
   *   segments to be left alone, from what the owner knew before this began
   * @param isComplete
   *   whether all objects are listed, to measure them and to find those of earlier runs
   * @param served
   *   seals of epochs that have cuts
   * @param isYoung
   *   whether a segment is left alone for its age
   */
  def run(
      oldest: Long,
      spared: Set[String],
      isComplete: Boolean = true,
      served: Seq[SealName] = Nil,
      isYoung: ObjectInfo => Boolean = _ => false
  ): Swept = {
    val listed =
      if (isComplete) archive.cuts.listed() else archive.cuts.listed(progress.cutsFrom, oldest)
    val cuts = listed.cutInfos.filter(_._1 < oldest)
    // A seal has served once its epoch has a cut.
    val last = if (isComplete) listed.epochs.lastOption else Some(oldest - 1)
    val seals = (listed.seals.filter(seal => last.exists(seal.epoch <= _)) ++ served).distinct
    val anchor = if (!isComplete) archive.cuts.openFrom(oldest) else openFrom(listed, oldest)
    // Read before anything is deleted: what it names must be known.
    val next = anchor.flatMap { known =>
      val after = known.head.epoch + 1
      val found = if (isComplete) openFrom(listed, after) else archive.cuts.openFrom(after)
      // Of the same owner it goes on from the other.
      found.filter(_.head.run.generation != known.head.run.generation)
    }
    val named = (anchor ++ next).flatMap(of => of.segments ++ of.pages).toSet
    // Cuts go first: a crash in between must not leave one whose segments are gone. Savepoints are
    // looked up after that: who pins a cut looks afterwards whether it is still there.
    archive.delete(cuts.map(_._2.key))
    archive.delete(seals.map(name => ObjectKey(CutLayout.seal(name))))
    if (isFollowed()) Nothing.copy(cuts = cuts.size)
    else {
      val needs = Needs(spared ++ named, isYoung, savepoints.read(oldest))
      val swept = parts(oldest, anchor, needs, isComplete)
      val keptBytes = swept.keptBytes.map(_ + listed.sizeSince(oldest))
      val deletedBytes = swept.deletedBytes + cuts.map(_._2.sizeBytes).sum
      swept.copy(cuts = cuts.size, keptBytes = keptBytes, deletedBytes = deletedBytes)
    }
  }

  private def openFrom(listed: CutsListed, epoch: Long): Option[StoredCut] =
    listed.epochs.find(_ >= epoch).flatMap(archive.cuts.open(_))

  /** Deletes the segments, pages and files that lie too far back to be needed. */
  private def parts(
      oldest: Long,
      anchor: Option[StoredCut],
      needs: Needs,
      isComplete: Boolean
  ): Swept = anchor.fold(Nothing) { cut =>
    val end = Math.min(oldest, cut.head.epoch) - baseMargin
    val from = if (isComplete) 0L else progress.partsFrom
    val until = if (isComplete) Long.MaxValue else Math.max(end, from)
    def known(of: Progress => Seq[Part]) = if (isComplete) Nil else of(progress)
    def sort(of: Seq[Part]) = of.partition(part => part.epoch < end && needs.mayDelete(part))
    val (segments, leftSegments) =
      sort(known(_.segments) ++ archive.segments.infos(from, until).map(Part.of))
    archive.delete(segments.map(_.key))
    // After what they name is settled: a page that is gone would leave that unknown.
    val (pages, leftPages) = sort(known(_.pages) ++ archive.pages.infos(from, until).map(Part.of))
    archive.delete(pages.map(_.key))
    val hasFiles = isComplete || progress.hasFiles
    val files =
      if (hasFiles && cut.head.epoch == oldest) archive.storeFiles() else Nil
    archive.delete(files)
    progress = Progress(
      Math.max(oldest, progress.cutsFrom),
      Math.max(end, from),
      // What was written under an epoch that is listed already, such as a late base, is not found
      // by a listing. It is known here while it is needed.
      left(leftSegments, end, needs.named, CutLayout.parseSegment),
      left(leftPages, end, needs.named, CutLayout.parsePage),
      hasFiles && cut.head.epoch != oldest
    )
    val left_ = leftSegments ++ leftPages
    Swept(
      cuts = 0,
      segments.size,
      pages.size,
      files.size,
      Option.when(isComplete)(left_.map(_.sizeBytes).sum),
      (segments ++ pages).map(_.sizeBytes).sum
    )
  }

  private def left(
      listed: Seq[Part],
      end: Long,
      named: Set[String],
      epochOf: String => Option[Long]
  ): Seq[Part] = {
    val before = listed.filter(_.epoch < end)
    val known = before.map(_.key.name).toSet
    val others = named.iterator.filterNot(known).flatMap { name =>
      epochOf(name).filter(_ < end).map(Part(_, ObjectKey(name), sizeBytes = 0L, None))
    }
    before ++ others
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
   * @param deletedBytes
   *   the size of the cuts, segments and pages that were deleted, as far as it is known
   */
  final case class Swept(
      cuts: Int,
      segments: Int,
      pages: Int,
      storeFiles: Int,
      keptBytes: Option[Long],
      deletedBytes: Long
  )

  private val Nothing = Swept(cuts = 0, segments = 0, pages = 0, storeFiles = 0, None, 0L)

  /**
   * A segment or page.
   *
   * @param info
   *   from a listing; None if a cut or savepoint names it and no listing had it yet
   */
  final private case class Part(
      epoch: Long,
      key: ObjectKey,
      sizeBytes: Long,
      info: Option[ObjectInfo]
  )

  private object Part {
    def of(listed: (Long, ObjectInfo)): Part =
      Part(listed._1, listed._2.key, listed._2.sizeBytes, Some(listed._2))
  }

  /** What a sweep keeps. */
  final private case class Needs(
      byCuts: Set[String],
      isYoung: ObjectInfo => Boolean,
      savepoints: SavepointIndex.Kept
  ) {
    val named: Set[String] = byCuts ++ savepoints.named

    def mayDelete(part: Part): Boolean =
      !named(part.key.name) && savepoints.lastUnknown.forall(part.epoch > _) &&
        !part.info.exists(isYoung)
  }

  /**
   * Where the next sweep of a run begins.
   *
   * @param cutsFrom
   *   the first epoch whose cut may be there
   * @param partsFrom
   *   the first epoch whose segments and pages are to be listed
   * @param segments
   *   those of earlier epochs that are left
   * @param pages
   *   those of earlier epochs that are left
   * @param hasFiles
   *   whether files from before the first cut may be there
   */
  final private case class Progress(
      cutsFrom: Long,
      partsFrom: Long,
      segments: Seq[Part],
      pages: Seq[Part],
      hasFiles: Boolean
  )

  private object Progress {
    val Start: Progress = Progress(0L, 0L, Nil, Nil, hasFiles = true)
  }
}
