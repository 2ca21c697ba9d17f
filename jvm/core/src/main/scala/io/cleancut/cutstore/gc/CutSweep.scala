package io.cleancut.cutstore.gc

import io.cleancut.cutstore.{CutArchive, CutsListed, StoredCut}
import io.cleancut.format.{CutLayout, SealName}
import io.cleancut.objectstore.{ObjectInfo, ObjectKey}

/**
 * Deletes cuts beyond retention, and segments that no retained cut references.
 *
 * A frame is referenced by consecutive cuts, from the one that adopts it until a base replaces it.
 * A base is adopted at most `baseMargin` epochs after the epoch of its segment, unless it was
 * announced ([[BaseLedger]]). So a segment that is that much older than the oldest retained cut, is
 * not referenced there, and is not protected, will not be referenced by any retained cut: one cut
 * and one listing decide. Savepoints retain the objects that they reference.
 *
 * There is a gap if an owner has accepted the cut of an earlier one as the commit of an epoch (rule
 * O10): its next cut continues from the cut before that epoch, and not necessarily from this one.
 * So if the oldest retained cut and the next have two owners, both decide.
 *
 * The same applies to pages: consecutive cuts reference a page, from the epoch that adopts it until
 * others replace it, and no cut adopts a page that is older than `baseMargin` epochs.
 *
 * Bases of an offline operation may reference objects of an earlier cut. The operation owns the
 * query before it checks whether that cut exists. So a garbage collection whose run has been
 * followed deletes only cuts: either the operation has not found them, or this check finds the
 * operation. The last cut lists referenced objects, as it lists late bases.
 *
 * Per-store files before the first cut are referenced by no cut, because each store begins with a
 * base there. They are deleted when the epochs without cuts are beyond retention.
 *
 * One instance performs all garbage collections of a run, one at a time. Each lists only the epochs
 * that have come into its range since the previous one, and remembers which older objects remain.
 *
 * @param deletesOnlyCuts
 *   whether a later owner exists or the run has ended, so that segments and pages are kept
 */
final class CutSweep(archive: CutArchive, baseMargin: Long, deletesOnlyCuts: () => Boolean) {
  import CutSweep._

  private val savepoints = new SavepointIndex(archive)
  private var progress = Progress.Start

  /** The savepoints that the last garbage collection could not read. */
  def unreadable: Seq[UnreadableSavepoint] = savepoints.unreadable

  /**
   * Keeps the cuts from `oldest` on.
   *
   * @param retained
   *   segments to keep, from the owner's state before this began
   * @param isComplete
   *   whether to list all objects, to measure them and to find those of earlier runs
   * @param served
   *   seals of epochs that have cuts
   * @param isYoung
   *   whether a segment is kept for its age
   */
  def run(
      oldest: Long,
      retained: Set[String],
      isComplete: Boolean = true,
      served: Seq[SealName] = Nil,
      isYoung: ObjectInfo => Boolean = _ => false
  ): Swept = {
    val listed =
      if (isComplete) archive.cuts.listed() else archive.cuts.listed(progress.cutsFrom, oldest)
    val cuts = listed.cutInfos.filter(_._1 < oldest)
    // A seal is unused once its epoch has a cut.
    val last = if (isComplete) listed.epochs.lastOption else Some(oldest - 1)
    val seals = (listed.seals.filter(seal => last.exists(seal.epoch <= _)) ++ served).distinct
    val anchor = if (!isComplete) archive.cuts.openFrom(oldest) else openFrom(listed, oldest)
    // Read before anything is deleted: its references must be known.
    val next = anchor.flatMap { known =>
      val after = known.head.epoch + 1
      val following = if (isComplete) openFrom(listed, after) else archive.cuts.openFrom(after)
      // With the same owner, it continues from the first one.
      following.filter(_.head.run.generation != known.head.run.generation)
    }
    val named = (anchor ++ next).flatMap(cut => cut.segments ++ cut.pages).toSet
    // Cuts are deleted first: a crash in between must not leave a cut without its segments.
    // Savepoints are read after that: the creator of a savepoint checks afterwards whether the cut
    // still exists.
    archive.delete(cuts.map(_._2.key))
    archive.delete(seals.map(name => ObjectKey(CutLayout.seal(name))))
    if (deletesOnlyCuts()) Nothing.copy(cuts = cuts.size)
    else {
      val needs = Needs(retained ++ named, isYoung, savepoints.read(oldest))
      val swept = parts(oldest, anchor, needs, isComplete)
      val keptBytes = swept.keptBytes.map(_ + listed.sizeSince(oldest))
      val deletedBytes = swept.deletedBytes + cuts.map(_._2.sizeBytes).sum
      swept.copy(cuts = cuts.size, keptBytes = keptBytes, deletedBytes = deletedBytes)
    }
  }

  private def openFrom(listed: CutsListed, epoch: Long): Option[StoredCut] =
    listed.epochs.find(_ >= epoch).flatMap(archive.cuts.open(_))

  /** Deletes unreferenced segments, pages and files that are old enough. */
  private def parts(
      oldest: Long,
      anchor: Option[StoredCut],
      needs: Needs,
      isComplete: Boolean
  ): Swept = anchor.fold(Nothing) { cut =>
    val end = Math.min(oldest, cut.head.epoch) - baseMargin
    val from = if (isComplete) 0L else progress.partsFrom
    val until = if (isComplete) Long.MaxValue else Math.max(end, from)
    def known(previous: Progress => Seq[Part]) = if (isComplete) Nil else previous(progress)
    def sort(parts: Seq[Part]) = parts.partition(part => part.epoch < end && needs.mayDelete(part))
    val (segments, leftSegments) =
      sort(known(_.segments) ++ archive.segments.infos(from, until).map(Part.of))
    archive.delete(segments.map(_.key))
    // After their references are known: a missing page would leave them unknown.
    val (pages, leftPages) = sort(known(_.pages) ++ archive.pages.infos(from, until).map(Part.of))
    archive.delete(pages.map(_.key))
    val hasFiles = isComplete || progress.hasFiles
    val files =
      if (hasFiles && cut.head.epoch == oldest) archive.storeFiles() else Nil
    archive.delete(files)
    progress = Progress(
      Math.max(oldest, progress.cutsFrom),
      Math.max(end, from),
      // An object of an epoch that has been listed already, such as a late base, is in no further
      // listing. It is remembered while it is referenced.
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
   * Numbers of deleted objects.
   *
   * @param storeFiles
   *   per-store files that precede the first cut
   * @param keptBytes
   *   size of all remaining cuts, seals, segments and pages; None if not all were listed
   * @param deletedBytes
   *   known size of the deleted cuts, segments and pages
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
   *   from a listing; None if it is only referenced by a cut or savepoint
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

  /** The objects that a garbage collection keeps. */
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
   * The start of the next garbage collection of a run.
   *
   * @param cutsFrom
   *   first epoch whose cut may exist
   * @param partsFrom
   *   first epoch whose segments and pages are listed
   * @param segments
   *   remaining segments of earlier epochs
   * @param pages
   *   remaining pages of earlier epochs
   * @param hasFiles
   *   whether files that precede the first cut may exist
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
