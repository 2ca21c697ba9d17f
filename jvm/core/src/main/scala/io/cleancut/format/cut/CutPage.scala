package io.cleancut.format.cut

import java.nio.BufferUnderflowException

import scala.util.control.NonFatal

import io.cleancut.error.Errors
import io.cleancut.format.{Chains, Channels, CutLayout, FormatMagic, PackedFrames, StoreCut}

/**
 * The frames of version *epoch + 1* of some stores. Cuts reference it. See `docs/FORMAT.md`,
 * "Pages".
 */
final class CutPage private (val epoch: Long, frames: PackedFrames) {

  /** The names of the segments of its chains. */
  def segments: Seq[String] = frames.segments

  def of(store: io.cleancut.base.StoreId): Seq[Chains.Frame] = frames.of(store)

  def stores: Seq[io.cleancut.base.StoreId] = frames.stores

  /** Approximate size in memory. */
  def sizeBytes: Long = frames.sizeBytes
}

object CutPage {

  /**
   * @param chains
   *   ascending by store
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE if readers would refuse it
   */
  def encode(chains: Seq[StoreCut]): Array[Byte] = {
    val body = PackedFrames.encode(chains.map(chain => chain.store -> chain.frames))
    CheckedBody.encode(FormatMagic.Page, body)
  }

  /**
   * @param epoch
   *   epoch in its name
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED, CLEANCUT_FORMAT_UNKNOWN
   */
  def parse(path: String, epoch: Long, bytes: Array[Byte]): CutPage = {
    val body = CheckedBody.decode(path, "a page", FormatMagic.Page, bytes)
    try {
      val frames = PackedFrames.parse(body)
      require(frames.stores.nonEmpty, "it has no stores")
      val unknown = frames.segments.find(CutLayout.parseSegment(_).isEmpty)
      require(unknown.isEmpty, s"${unknown.getOrElse("")} is not the name of a segment")
      frames.all.foreach { case (store, chain) =>
        require(!Channels.isChannel(store), s"$store is a shuffle input")
        Chains.checked(epoch, StoreCut(store, chain))
      }
      new CutPage(epoch, frames)
    } catch {
      case _: BufferUnderflowException => damaged(path, "its body is truncated")
      case NonFatal(e)                 => damaged(path, s"its body cannot be read: ${e.getMessage}")
    }
  }

  private def damaged(path: String, detail: String) = throw Errors.cutCorrupted(path, detail)
}
