package io.cleancut.cutstore

import java.util.concurrent.atomic.LongAdder

import io.cleancut.format.{CutLayout, SealName}
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore._

/**
 * The cuts and seals of one query, each of which is created once. Thread-safe.
 *
 * @param readParts
 *   default reader of pages and tables
 */
final class CutLog private[cutstore] (root: ObjectStore, readParts: CutParts) {
  private val readBytes = new LongAdder
  private val writtenBytes = new LongAdder

  /** Bytes of all cuts, seals and savepoints that were read. */
  def bytesRead: Long = readBytes.sum

  /** Bytes of all cuts and seals that were written. */
  def bytesWritten: Long = writtenBytes.sum

  def epochs(): Seq[Long] = listed().epochs

  /** Lists all cuts and seals. */
  def listed(): CutsListed = CutsListed.of(root.list(ObjectPrefix(CutLayout.Cuts)).toVector)

  /** Lists the cuts and seals of the epochs from `from` to before `until`. */
  def listed(from: Long, until: Long): CutsListed =
    CutsListed.of(EpochObjects.list(root, CutLayout.Cuts, from, until).toVector)

  /** The first cut at or after an epoch. */
  def openFrom(epoch: Long): Option[StoredCut] = open(epoch).orElse {
    val later = EpochObjects.list(root, CutLayout.Cuts, epoch + 1, Long.MaxValue)
    later.flatMap(info => CutsListed.epochOf(info)).nextOption().flatMap(open(_))
  }

  /** The cut of an epoch with all chains. */
  def read(epoch: Long): Option[Cut] = open(epoch).map(_.whole)

  /** The cut of an epoch, whose chains are read on request. */
  def open(epoch: Long, parts: CutParts = readParts): Option[StoredCut] =
    head(CutLayout.cut(epoch), epoch).map(stored(CutLayout.cut(epoch), _, parts))

  /** The cut of an epoch without its chains. */
  def head(epoch: Long): Option[Cut] = head(CutLayout.cut(epoch), epoch)

  /** The last cut. */
  def last(): Option[StoredCut] = epochs().lastOption.flatMap(open(_))

  /** Writes a cut if its epoch has none; returns whether the epoch has this cut. */
  def create(cut: Cut): Boolean = create(CutLayout.cut(cut.epoch), cut)

  /** Writes the seal of a run and epoch if absent; returns whether the stored seal is this one. */
  def seal(seal: Cut): Boolean =
    create(CutLayout.seal(SealName(seal.epoch, seal.run.generation)), seal)

  /**
   * A seal with all its chains.
   *
   * @param before
   *   the previous cut, with all its chains
   */
  def readSeal(name: SealName, before: Option[Cut]): Option[Cut] = {
    val seal = CutLayout.seal(name)
    head(seal, name.epoch).map(stored(seal, _, readParts).after(before))
  }

  private def create(name: String, cut: Cut): Boolean = {
    val bytes = cut.toBytes
    val isOwn = root.create(ObjectKey(name), bytes, WriterToken(cut.token)) match {
      case CreateResult.Created   => true
      case CreateResult.Exists(_) => head(name, cut.epoch).exists(_.token == cut.token)
    }
    if (isOwn) writtenBytes.add(bytes.length.toLong)
    isOwn
  }

  private def stored(name: String, head: Cut, parts: CutParts) =
    new StoredCut(head, pathOf(name), parts)

  private def head(name: String, epoch: Long): Option[Cut] =
    root.get(ObjectKey(name)).map { bytes =>
      readBytes.add(bytes.length.toLong)
      Cut.parse(pathOf(name), epoch, bytes)
    }

  private def pathOf(name: String) = s"${root.location}/$name"
}

/**
 * The cuts and seals in a listing.
 *
 * @param cutInfos
 *   by epoch, ascending
 */
final case class CutsListed(
    cutInfos: Seq[(Long, ObjectInfo)],
    sealInfos: Seq[(SealName, ObjectInfo)]
) {

  def epochs: Seq[Long] = cutInfos.map(_._1)

  def seals: Seq[SealName] = sealInfos.map(_._1)

  /** The seal of the latest run, which has read the seals of earlier runs. */
  def sealOf(epoch: Long): Option[SealName] =
    seals.filter(_.epoch == epoch).maxByOption(_.generation)

  /** Bytes of the cuts and seals from an epoch on. */
  def sizeSince(epoch: Long): Long =
    cutInfos.filter(_._1 >= epoch).map(_._2.sizeBytes).sum +
      sealInfos.filter(_._1.epoch >= epoch).map(_._2.sizeBytes).sum
}

object CutsListed {
  private[cutstore] def epochOf(info: ObjectInfo): Option[Long] =
    CutLayout.parseCut(info.key.name.stripPrefix(CutLayout.Cuts))

  private[cutstore] def of(infos: Seq[ObjectInfo]): CutsListed = {
    def seal(info: ObjectInfo) =
      CutLayout.parseSeal(info.key.name.stripPrefix(CutLayout.Cuts))
    CutsListed(
      infos.flatMap(info => epochOf(info).map(_ -> info)).sortBy(_._1),
      infos.flatMap(info => seal(info).map(_ -> info))
    )
  }
}
