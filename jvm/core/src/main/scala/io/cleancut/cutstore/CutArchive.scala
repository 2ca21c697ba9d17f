package io.cleancut.cutstore

import java.nio.charset.StandardCharsets.UTF_8

import io.cleancut.base.Clock
import io.cleancut.cutstore.usage.Place
import io.cleancut.error.Errors
import io.cleancut.format.{CutLayout, FormatNote, Proof, StoreLayout}
import io.cleancut.format.cut.{Lineage, SinkEpochs, StoredSinkEpochs}
import io.cleancut.objectstore.{CreateResult, ObjectKey, ObjectPrefix, ObjectStore, WriterToken}

/**
 * All objects of one query's cuts in its object store.
 *
 * @param store
 *   the query's directory, `<checkpointLocation>/cleancut`
 */
final class CutArchive(val store: ObjectStore, clock: Clock) {
  val pages = new Pages(store, clock)
  val segments = new Segments(store)
  val cuts = new CutLog(store, CutParts.read(this))
  val savepoints = new Savepoints(store, clock, CutParts.read(this))
  val owners = new Owners(store, clock)

  def location: String = store.location

  /** The path of an object for users. */
  def pathOf(name: String): String = s"$location/$name"

  /** Bytes of all cuts, seals, pages and tables that were read. */
  def bytesRead: Long = cuts.bytesRead + pages.bytesRead + segments.bytesRead

  /** Bytes of the cuts, seals and pages that were written through this archive. */
  def bytesWritten: Long = cuts.bytesWritten + pages.bytesWritten

  /** The published epochs of sinks before the first cut. */
  def uncutSinks(): SinkEpochs = {
    val name = StoredSinkEpochs.Name
    store.get(ObjectKey(name)).fold(SinkEpochs.Empty)(StoredSinkEpochs.parse(pathOf(name), _).sinks)
  }

  /** The checkpoints that this one continues. */
  def lineage(): Lineage =
    store.get(ObjectKey(Lineage.Name)).fold(Lineage.Empty)(Lineage.parse(pathOf(Lineage.Name), _))

  /** The markers of restore tests and replicas: two list requests, and a read for each replica. */
  def notes(): Notes = {
    val replicas = names(CutLayout.Replicas).flatMap { name =>
      store.get(ObjectKey(s"${CutLayout.Replicas}$name")).map(new String(_, UTF_8))
    }
    Notes(names(CutLayout.Proofs), replicas)
  }

  /** The bytes of `format.json`. */
  def format(): Option[Array[Byte]] = store.get(ObjectKey(StoreLayout.FormatObject))

  /** Creates `format.json`, or checks the existing one, which was read before. */
  def mark(queryId: Option[String], existing: => Option[Array[Byte]] = format()): Unit = {
    val key = ObjectKey(StoreLayout.FormatObject)
    existing.map(FormatNote.parse) match {
      case None =>
        val result = store.create(key, FormatNote(queryId).toJson, WriterToken.fresh(clock))
        // Another process may have created one with another version.
        if (result != CreateResult.Created) mark(queryId, format())
      case Some(Right(_))     => ()
      case Some(Left(format)) =>
        throw Errors.formatUnknown(pathOf(key.name), format, FormatNote.Supported)
    }
  }

  /** Frames in per-store files, as before the first cut. */
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
 * Markers of other processes next to a query; the query does not depend on them.
 *
 * @param proofs
 *   names of restore test markers, below their directory
 * @param replicas
 *   a JSON object for each replica
 */
final case class Notes(proofs: Seq[String], replicas: Seq[String]) {

  /** The last successful restore test. */
  def proven: Option[Proof] = proofs
    .flatMap(name => CutLayout.parseProof(s"${CutLayout.Proofs}$name"))
    .maxByOption(proof => (proof.epoch, proof.provenMs))
}
