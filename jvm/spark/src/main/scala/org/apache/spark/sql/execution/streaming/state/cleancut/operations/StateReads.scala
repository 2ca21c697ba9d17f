package org.apache.spark.sql.execution.streaming.state.cleancut.operations

import java.io.ByteArrayInputStream

import scala.collection.mutable

import io.cleancut.cutstore.CutArchive
import io.cleancut.format.{Channels, FrameName, FramePlace, StoreCut}
import io.cleancut.format.cut.Cut
import io.cleancut.format.frame.{BlockScratch, FrameReader, FrameRequest, ReferringBase}
import io.cleancut.objectstore.{ObjectKey, RangeResult}

/**
 * Counts how often the rows of a state are read when all of its stores are loaded: once, unless its
 * bases reference sources that others read, too. The sources of these may be references again, so
 * the counts of operations without a snapshot in between are multiplied.
 *
 * All references of one operation have the same ratio. So one base is read for each operator and
 * version.
 */
final private[operations] class StateReads(archive: CutArchive) {
  private val known = mutable.Map.empty[(Long, Long), Long]

  /**
   * @param cut
   *   a cut with its chains
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_FRAME_CORRUPTED
   */
  def of(cut: Cut): Long = {
    val versions = cut.referred.map(_.version).toSet
    // In-flight rows have frames of the same versions, which are no references.
    val stores = cut.stores.filterNot(chain => Channels.isChannel(chain.store))
    most(stores.filter(_.base.exists { case (name, _) => versions(name.version.number) }))
  }

  private def most(chains: Seq[StoreCut]): Long =
    chains.flatMap(_.base).map { case (base, place) => ofBase(base, place) }.maxOption.getOrElse(1L)

  private def ofBase(base: FrameName, place: FramePlace): Long = {
    val key = (base.store.operator, base.version.number)
    known.getOrElse(
      key, {
        val reads = if (isReferring(base, place)) ofSources(base, place) else 1L
        known(key) = reads
        reads
      }
    )
  }

  private def isReferring(base: FrameName, place: FramePlace): Boolean =
    ReferringBase.isBegunBy(bytes(base, place, ReferringBase.HeadBytes))

  private def ofSources(base: FrameName, place: FramePlace): Long = {
    val in = new ByteArrayInputStream(bytes(base, place, Math.toIntExact(place.length)))
    val scratch = BlockScratch.borrow()
    try {
      val reader = new FrameReader(request(base, place), in, scratch)
      val ratio = reader.identity.spread.fold(1)(spread => spread.reads)
      ratio * most(reader.sources())
    } finally scratch.giveBack()
  }

  private def bytes(base: FrameName, place: FramePlace, length: Int): Array[Byte] =
    archive.store.getRange(ObjectKey(place.segment), place.offset, length) match {
      case RangeResult.Found(bytes) => bytes
      case RangeResult.Missing      => throw request(base, place).damaged("the segment is missing")
      case RangeResult.TooShort(sizeBytes) =>
        throw request(base, place).damaged(s"the segment ends at byte $sizeBytes")
    }

  private def request(base: FrameName, place: FramePlace) =
    FrameRequest(archive.pathOf(place.segment), base.store, base.version, base.kind)
}
