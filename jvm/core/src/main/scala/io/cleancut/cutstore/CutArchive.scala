package io.cleancut.cutstore

import java.nio.charset.StandardCharsets.UTF_8

import io.cleancut.base.Clock
import io.cleancut.cutstore.usage.Place
import io.cleancut.error.Errors
import io.cleancut.format.{CutLayout, FormatNote, Proof, StoreLayout}
import io.cleancut.format.cut.{Lineage, SinkEpochs, StoredSinkEpochs}
import io.cleancut.objectstore.{CreateResult, ObjectKey, ObjectPrefix, ObjectStore, WriterToken}

/**
 * All that the cuts of one query consist of, on its store.
 *
 * @param store
 *   the query's own directory, `<checkpointLocation>/cleancut`
 */
final class CutArchive(val store: ObjectStore, clock: Clock) {
  val pages = new Pages(store, clock)
  val segments = new Segments(store)
  val cuts = new CutLog(store, CutParts.read(this))
  val savepoints = new Savepoints(store, clock, CutParts.read(this))
  val owners = new Owners(store, clock)

  def location: String = store.location

  /** Where people find an object of it. */
  def pathOf(name: String): String = s"$location/$name"

  /** The size of all cuts and seals, and of what these name, that were read, in bytes. */
  def bytesRead: Long = cuts.bytesRead + pages.bytesRead + segments.bytesRead

  /** Bytes of the cuts, seals and pages that were written through this archive. */
  def bytesWritten: Long = cuts.bytesWritten + pages.bytesWritten

  /** The epochs that sinks had published before the first cut. */
  def uncutSinks(): SinkEpochs = {
    val name = StoredSinkEpochs.Name
    store.get(ObjectKey(name)).fold(SinkEpochs.Empty)(StoredSinkEpochs.parse(pathOf(name), _).sinks)
  }

  /** The checkpoints that this one continues. */
  def lineage(): Lineage =
    store.get(ObjectKey(Lineage.Name)).fold(Lineage.Empty)(Lineage.parse(pathOf(Lineage.Name), _))

  /** What others have noted who looked at the query: two listings, and a read for each copy. */
  def notes(): Notes = {
    val replicas = names(CutLayout.Replicas).flatMap { name =>
      store.get(ObjectKey(s"${CutLayout.Replicas}$name")).map(new String(_, UTF_8))
    }
    Notes(names(CutLayout.Proofs), replicas)
  }

  /** Creates `format.json`, or checks the one that is there. */
  def mark(queryId: Option[String]): Unit = {
    val key = ObjectKey(StoreLayout.FormatObject)
    store.get(key).map(FormatNote.parse) match {
      case None =>
        val result = store.create(key, FormatNote(queryId).toJson, WriterToken.fresh(clock))
        // Another process may have created one of another version.
        if (result != CreateResult.Created) mark(queryId)
      case Some(Right(_))    => ()
      case Some(Left(found)) =>
        throw Errors.formatUnknown(pathOf(key.name), found, FormatNote.Supported)
    }
  }

  /** Frames that lie in files of their stores, as they do before the first cut. */
  def storeFiles(): Seq[ObjectKey] =
    store.list(ObjectPrefix(StoreLayout.Stores)).map(_.key).toSeq

  def delete(keys: Seq[ObjectKey]): Unit = if (keys.nonEmpty) store.delete(keys)

  private def names(prefix: String): Seq[String] =
    store.list(ObjectPrefix(prefix)).map(_.key.name.stripPrefix(prefix)).toSeq
}

object CutArchive {
  private val OfDriver = s"/${Place.Driver}-"

  /** Whether a driver wrote a segment. */
  private[cutstore] def isOfDriver(segment: String): Boolean =
    segment.contains(OfDriver) || FrameMerge.isMerged(segment)
}

/**
 * What others have noted beside a query; nothing here depends on it.
 *
 * @param proofs
 *   the names of proofs, below their directory
 * @param replicas
 *   a JSON object for each copy that passes keep up
 */
final case class Notes(proofs: Seq[String], replicas: Seq[String]) {

  /** The last proof that the query can be restored. */
  def proven: Option[Proof] = proofs
    .flatMap(name => CutLayout.parseProof(s"${CutLayout.Proofs}$name"))
    .maxByOption(of => (of.epoch, of.provenMs))
}
