package io.cleancut.cutstore.gc

import org.slf4j.LoggerFactory

import io.cleancut.cutstore.{CutArchive, StoredCut}
import io.cleancut.error.{CleancutException, ErrorKind}

/**
 * A savepoint that cannot be read, or a page of it.
 *
 * @param lastEpoch
 *   the last epoch of which the savepoint may reference objects; None if it is not known
 */
final case class UnreadableSavepoint(name: String, detail: String, lastEpoch: Option[Long])

/**
 * The segments and pages that savepoints reference (rules K5 and K9). For one thread at a time.
 *
 * A savepoint that cannot be read may reference every object that existed when it was created. It
 * cannot reference objects of epochs after the last one that was committed by then. The write times
 * of the cuts and of the savepoint show which these are, both by the clock of the object store.
 */
final private[cutstore] class SavepointIndex(archive: CutArchive) {
  import SavepointIndex._

  private var known = Map.empty[Id, Set[String]]
  private var limits = Map.empty[Id, Long]
  @volatile private var failed = Seq.empty[UnreadableSavepoint]

  /** The savepoints that could not be read when they were last required. */
  def unreadable: Seq[UnreadableSavepoint] = failed

  /**
   * Lists the savepoints, and reads those that have not been read yet.
   *
   * @param oldest
   *   the first epoch whose cut is kept
   */
  def read(oldest: Long): Kept = {
    val ids = archive.savepoints.list().map { case (name, info) => Id(name, info.modifiedMs) }
    val read = ids.map(id => id -> known.get(id).toRight("").left.flatMap(_ => named(id)))
    known = read.collect { case (id, Right(names)) => id -> names }.toMap
    limits = limits.filter { case (id, _) => ids.contains(id) }
    failed = read.collect { case (id, Left(detail)) =>
      UnreadableSavepoint(id.name, detail, limit(id, oldest))
    }
    failed.foreach { savepoint =>
      val limit =
        savepoint.lastEpoch.fold("No segment or page")(e => s"No segment or page up to epoch $e")
      logger.warn(
        s"Savepoint ${savepoint.name} of ${archive.location} cannot be read: " +
          s"${savepoint.detail}. $limit is deleted until it is readable or dropped: " +
          s"cleancut savepoint drop ${archive.location} ${savepoint.name}"
      )
    }
    val lastUnknown = failed.map(_.lastEpoch.getOrElse(Long.MaxValue)).maxOption
    Kept(known.values.flatten.toSet, lastUnknown)
  }

  /**
   * The references of a savepoint, or the reason why they are unknown. A dropped savepoint has
   * none.
   */
  private def named(id: Id): Either[String, Set[String]] =
    try {
      val cut = archive.savepoints.open(id.name)
      Right(cut.toSet[StoredCut].flatMap(stored => stored.segments ++ stored.pages))
    } catch {
      // A transient error is no property of the savepoint.
      case e: CleancutException if e.kind != ErrorKind.Retry => Left(e.summary)
    }

  /** The limit is remembered: the cuts that show it will be deleted. */
  private def limit(id: Id, oldest: Long): Option[Long] = {
    if (!limits.contains(id)) {
      val cuts = archive.cuts.listed(oldest, Long.MaxValue).cutInfos
      val written = cuts.map { case (epoch, info) => epoch -> info.modifiedMs }
      lastBefore(id.writtenMs, written).foreach(epoch => limits += id -> epoch)
    }
    limits.get(id)
  }
}

private[cutstore] object SavepointIndex {
  private val logger = LoggerFactory.getLogger(classOf[SavepointIndex])

  /** A savepoint with its write time, because a name may be reused. */
  final private case class Id(name: String, writtenMs: Long)

  /**
   * The references of the savepoints.
   *
   * @param named
   *   references by savepoint name, if it is readable
   * @param lastUnknown
   *   last epoch of which unreadable savepoints may reference objects; None if all are readable
   */
  final case class Kept(named: Set[String], lastUnknown: Option[Long])

  /**
   * An epoch that is not before the last one committed by a time; None if none is known. The cuts
   * after it have no gap up to the last cut, and each is newer than that time. A cut before a gap
   * is no evidence: a run that was followed may have written it late.
   *
   * @param cuts
   *   epochs and write times, by epoch
   */
  def lastBefore(timeMs: Long, cuts: Seq[(Long, Long)]): Option[Long] = {
    val last = cuts.lastOption.map(_._1)
    val newer = cuts.reverseIterator.zipWithIndex.takeWhile { case ((epoch, writtenMs), index) =>
      last.contains(epoch + index) && writtenMs > timeMs
    }
    newer.map(_._1._1 - 1).toSeq.lastOption
  }
}
