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

  /** Bytes of all pages that were read. */
  def bytesRead: Long = readBytes.sum

  /** Bytes of all pages that were written. */
  def bytesWritten: Long = writtenBytes.sum

  /**
   * Writes pages with these chains.
   *
   * @param epoch
   *   epoch after which they are complete
   * @param chains
   *   chains of each page, ascending by store
   */
  def write(epoch: Long, chains: Seq[Seq[StoreCut]]): Seq[PageRef] = chains.map { page =>
    val bytes = CutPage.encode(page)
    val name = CutLayout.page(epoch, StateVersion.newId(clock))
    // The name is unique, so a plain write, which may be repeated, is sufficient.
    root.put(ObjectKey(name), bytes)
    writtenBytes.add(bytes.length.toLong)
    PageRef(name, bytes.length.toLong, Crc.of(bytes), page.size, page.head.store)
  }

  /**
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, also if the page is missing
   */
  def read(ref: PageRef): CutPage = {
    val path = s"${root.location}/${ref.name}"
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    val bytes = root.get(ObjectKey(ref.name)).getOrElse(damaged(EpochObjects.Gone))
    readBytes.add(bytes.length.toLong)
    CutParts.page(path, ref, bytes)
  }

  /** All pages with the epoch in their names. */
  def keys(): Seq[(Long, ObjectKey)] = EpochObjects.keysOf(infos())

  /** The pages of the epochs in [`from`, `until`), with their epochs. */
  def infos(from: Long = 0L, until: Long = Long.MaxValue): Seq[(Long, ObjectInfo)] =
    EpochObjects.listWithEpochs(root, CutLayout.Pages, from, until)(CutLayout.parsePage)
}
