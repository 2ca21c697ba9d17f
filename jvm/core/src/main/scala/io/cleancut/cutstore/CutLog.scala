package io.cleancut.cutstore

import java.util.concurrent.atomic.LongAdder

import io.cleancut.format.{CutLayout, SealName}
import io.cleancut.format.cut.Cut
import io.cleancut.objectstore._

/**
 * The cuts and seals of one query, each of which is created once. Thread-safe.
 *
 * @param readParts
 *   how what a cut names is read, unless a caller says otherwise
 */
final class CutLog private[cutstore] (root: ObjectStore, readParts: CutParts) {
  private val readBytes = new LongAdder
  private val writtenBytes = new LongAdder

  /** The size of all cuts, seals and savepoints that were read. */
  def bytesRead: Long = readBytes.sum

  /** The size of all cuts and seals that were written. */
  def bytesWritten: Long = writtenBytes.sum

  def epochs(): Seq[Long] = listed().epochs

  /** Lists all cuts and seals. */
  def listed(): CutsListed = CutsListed.of(root.list(ObjectPrefix(CutLayout.Cuts)).toVector)

  /** Lists the cuts and seals of the epochs from `from` to before `until`. */
  def listed(from: Long, until: Long): CutsListed =
    CutsListed.of(EpochObjects.list(root, CutLayout.Cuts, from, until).toVector)

  /** The cut of the first epoch from this one on that has one. */
  def openFrom(epoch: Long): Option[StoredCut] = open(epoch).orElse {
    val found = EpochObjects.list(root, CutLayout.Cuts, epoch + 1, Long.MaxValue)
    found.flatMap(info => CutsListed.epochOf(info)).nextOption().flatMap(open(_))
  }

  /** The cut of an epoch, whole. */
  def read(epoch: Long): Option[Cut] = open(epoch).map(_.whole)

  /** The cut of an epoch, whose chains are read when they are asked for. */
  def open(epoch: Long, parts: CutParts = readParts): Option[StoredCut] =
    head(CutLayout.cut(epoch), epoch).map(stored(CutLayout.cut(epoch), _, parts))

  /** All of the cut of an epoch but its chains. */
  def head(epoch: Long): Option[Cut] = head(CutLayout.cut(epoch), epoch)

  /** The cut of the last epoch that has one. */
  def last(): Option[StoredCut] = epochs().lastOption.flatMap(open(_))

  /** Writes a cut if its epoch has none; whether this one is the epoch's. */
  def create(cut: Cut): Boolean = create(CutLayout.cut(cut.epoch), cut)

  /** Writes the seal that a run has of an epoch if it has none; whether it is this one. */
  def seal(seal: Cut): Boolean =
    create(CutLayout.seal(SealName(seal.epoch, seal.run.generation)), seal)

  /**
   * A seal with all its chains.
   *
   * @param before
   *   the cut before its epoch, with all its chains
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
 * Cuts and seals as a listing has them.
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

  /** Of several runs the latest has looked for those of the others, and knows best. */
  def sealOf(epoch: Long): Option[SealName] =
    seals.filter(_.epoch == epoch).maxByOption(_.generation)

  /** Bytes of the cuts and seals of the epochs from this one on. */
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
