package io.cleancut.faults

import io.cleancut.base.Clock
import io.cleancut.cutstore.CutArchive
import io.cleancut.cutstore.gc.CutSweep
import io.cleancut.format.CutLayout
import io.cleancut.history.HistoryLayout
import io.cleancut.objectstore.{ObjectPrefix, ObjectStore, RootedStore, WriteProbe}

/**
 * The wrong objects of a checkpoint after garbage collection.
 *
 * @param orphans
 *   unreferenced objects
 * @param missing
 *   objects that the last cut references and that do not exist
 */
final case class Remains(orphans: Seq[String], missing: Seq[String])

object Remains {
  private val Far = 365L * 24 * 3600 * 1000

  /** Spark's files, which Spark deletes. */
  private val Sparks = Seq("metadata", "offsets/", "sources/", "state/")
  private val Root = "cleancut/"

  /** Collects garbage in the checkpoint of a stopped query, as if all objects were old. */
  def of(checkpoint: ObjectStore): Remains = {
    val archive = new CutArchive(new RootedStore(checkpoint, Root), Clock.System)
    val last = archive.cuts.epochs().last
    // No run can still adopt a late base.
    new CutSweep(archive, baseMargin = -1L, () => false).run(last, retained = Set.empty)
    val laterMs = Clock.System.wallMs() + Far
    checkpoint.dropUnfinished(laterMs)
    WriteProbe.dropLeftBehind(checkpoint, laterMs)
    val cut = archive.cuts.open(last).get
    val named = (cut.segments ++ cut.pages).map(Root + _)
    val kept = named + (Root + CutLayout.cut(last)) + s"${Root}format.json"
    val names = checkpoint.list(ObjectPrefix.All).map(_.key.name).toSet
    def isHistory(name: String) = HistoryLayout.parse(name.stripPrefix(Root)).isDefined
    def isKept(name: String) = kept(name) || name.startsWith(Root + CutLayout.Owners) ||
      isHistory(name) || Sparks.exists(name.startsWith)
    val uploads = Seq.fill(checkpoint.dropUnfinished(laterMs))("an upload")
    Remains(names.filterNot(isKept).toSeq.sorted ++ uploads, (named -- names).toSeq.sorted)
  }
}
