package io.cleancut.cutstore

import java.util.concurrent.atomic.LongAdder

import io.cleancut.base.{Clock, Crc, StateVersion}
import io.cleancut.error.Errors
import io.cleancut.format.{CutLayout, StoreCut}
import io.cleancut.format.cut.{CutPage, PageRef}
import io.cleancut.objectstore.{ObjectInfo, ObjectKey, ObjectStore}

/** The pages of one query, each of which is written once. Thread-safe. */
final class Pages private[cutstore] (root: ObjectStore, clock: Clock) {
  private val readBytes = new LongAdder
  private val writtenBytes = new LongAdder

  /** The size of all pages that were read. */
  def bytesRead: Long = readBytes.sum

  /** The size of all pages that were written. */
  def bytesWritten: Long = writtenBytes.sum

  /**
   * Writes pages of these chains.
   *
   * @param epoch
   *   after which they are complete
   * @param chains
   *   of each page, ascending by their stores
   */
  def write(epoch: Long, chains: Seq[Seq[StoreCut]]): Seq[PageRef] = chains.map { of =>
    val bytes = CutPage.encode(of)
    val name = CutLayout.page(epoch, StateVersion.newId(clock))
    // Nobody else has this name, so that a plain write, which may be repeated, is enough.
    root.put(ObjectKey(name), bytes)
    writtenBytes.add(bytes.length.toLong)
    PageRef(name, bytes.length.toLong, Crc.of(bytes), of.size, of.head.store)
  }

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, also where it is gone
   */
  def read(ref: PageRef): CutPage = {
    val path = s"${root.location}/${ref.name}"
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    val bytes = root.get(ObjectKey(ref.name)).getOrElse(damaged(EpochObjects.Gone))
    readBytes.add(bytes.length.toLong)
    CutParts.page(path, ref, bytes)
  }

  /** Every page, with the epoch in its name. */
  def keys(): Seq[(Long, ObjectKey)] = EpochObjects.keysOf(infos())

  /** The pages of the epochs from `from` to before `until`, with their epochs. */
  def infos(from: Long = 0L, until: Long = Long.MaxValue): Seq[(Long, ObjectInfo)] =
    EpochObjects.listWithEpochs(root, CutLayout.Pages, from, until)(CutLayout.parsePage)
}
