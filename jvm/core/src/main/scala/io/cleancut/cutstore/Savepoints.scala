package io.cleancut.cutstore

import io.cleancut.base.Clock
import io.cleancut.error.Errors
import io.cleancut.format.CutLayout
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore._

/**
 * The cuts of one query that are retained under a name. Thread-safe.
 *
 * @param readParts
 *   default reader of pages and tables
 */
final class Savepoints private[cutstore] (root: ObjectStore, clock: Clock, readParts: CutParts) {

  /**
   * Retains the cut of an epoch under a name that must be unused.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_SAVEPOINT_INVALID
   */
  def pin(name: String, epoch: Long): Unit = {
    def invalid(detail: String) = throw Errors.savepointInvalid(name, root.location, detail)
    if (!CutLayout.isSavepoint(name))
      invalid("a name has 1 to 64 letters, digits, dashes and underscores")
    val bytes = root.get(ObjectKey(CutLayout.cut(epoch)))
    val key = ObjectKey(CutLayout.savepoint(name))
    bytes match {
      case None        => invalid(s"there is no cut of epoch $epoch")
      case Some(bytes) =>
        val result = root.create(key, bytes, WriterToken.fresh(clock))
        if (result != CreateResult.Created) invalid("a savepoint has this name already")
        // A garbage collection that missed the savepoint deleted the cut before this check.
        if (root.head(ObjectKey(CutLayout.cut(epoch))).isEmpty) {
          root.delete(Seq(key))
          invalid(s"the cut of epoch $epoch was deleted by garbage collection")
        }
    }
  }

  /** Drops a savepoint; returns whether it existed. */
  def unpin(name: String): Boolean = CutLayout.isSavepoint(name) && {
    val key = ObjectKey(CutLayout.savepoint(name))
    val exists = root.head(key).isDefined
    if (exists) root.delete(Seq(key))
    exists
  }

  /** The retained cuts by name. */
  def all(): Map[String, StoredCut] =
    list().flatMap { case (name, _) => open(name).map(name -> _) }.toMap

  /** All savepoints by name. */
  def list(): Seq[(String, ObjectInfo)] = root
    .list(ObjectPrefix(CutLayout.Savepoints))
    .flatMap { info =>
      val name = info.key.name.stripPrefix(CutLayout.Savepoints)
      CutLayout.parseSavepoint(name).map(_ -> info)
    }
    .toSeq

  /** The cut of a savepoint. */
  def open(name: String, parts: CutParts = readParts): Option[StoredCut] = {
    val key = ObjectKey(CutLayout.savepoint(name))
    root.get(key).map { bytes =>
      val path = s"${root.location}/${key.name}"
      new StoredCut(Cut.parse(path, bytes), path, parts)
    }
  }
}
