package io.cleancut.cutstore

import java.util.concurrent.{CompletableFuture, ExecutionException, Executors}

import io.cleancut.base.{Crc, DaemonThreads, SharedReads, StoreId}
import io.cleancut.error.Errors
import io.cleancut.format.{Chains, Channels, PackedFrames, StoreOrder}
import io.cleancut.format.cut.{CutPage, PageRef, Segment, WindowPart}

/** Reads the pages and tables that a cut references instead of containing chains. */
trait CutParts {
  def page(ref: PageRef): CutPage

  /** The frames of a segment, by store, without those of shuffle inputs. */
  def table(part: WindowPart): PackedFrames

  /** Prefetches pages and tables, concurrently if possible. */
  def fetch(pages: Seq[PageRef], window: Seq[WindowPart]): Unit = ()
}

object CutParts {

  /**
   * Decodes and checks a page.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def page(path: String, ref: PageRef, bytes: Array[Byte]): CutPage = {
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    if (bytes.length != ref.length || Crc.of(bytes) != ref.crc) {
      damaged("its checksum does not match the cut")
    }
    val page = CutPage.parse(path, ref.epoch, bytes)
    val (size, first) = (page.stores.size, page.stores.head)
    if (size != ref.stores || first != ref.first) {
      damaged(
        s"it has $size stores from $first on, but the cut states ${ref.stores} from ${ref.first} on"
      )
    }
    page
  }

  /**
   * Decodes the footer of a segment.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def table(path: String, part: WindowPart, footer: Array[Byte]): PackedFrames = {
    val frames = Segment.parseFooter(part.segment, path, footer, part.end)
    part.counted.offsets.diff(frames.map(_.place.offset)).foreach { offset =>
      throw Errors.cutCorrupted(path, s"the cut references a frame at $offset that does not exist")
    }
    // A writer sorts frames in this order, so sorting again is one pass.
    val ordered = frames
      .filterNot(frame => Channels.isChannel(frame.name.store))
      .sortBy(_.name.store)(StoreOrder)
    val byStore = Vector.newBuilder[(StoreId, Seq[Chains.Frame])]
    val rest = ordered.iterator.buffered
    while (rest.hasNext) {
      val store = rest.head.name.store
      val frames = Vector.newBuilder[Chains.Frame]
      while (rest.headOption.exists(_.name.store == store)) {
        val frame = rest.next()
        frames += ((frame.name.kind, frame.name.version, frame.place))
      }
      byStore += store -> frames.result().sortBy(_._2.number)
    }
    PackedFrames.of(byStore.result())
  }

  /** Reads each object on request. */
  def read(archive: CutArchive): CutParts = new CutParts {
    override def page(ref: PageRef): CutPage = archive.pages.read(ref)
    override def table(part: WindowPart): PackedFrames = archive.segments.table(part)
  }

  /** Caches the latest reads of this process: the stores of an executor read the same objects. */
  def shared(archive: CutArchive): CutParts = new Shared(archive)

  final private class Shared(archive: CutArchive) extends CutParts {
    override def page(ref: PageRef): CutPage =
      pages(Key(archive.location, ref.name, ref.crc))(Some(archive.pages.read(ref))).get

    override def table(part: WindowPart): PackedFrames =
      tables(Key(archive.location, part.segment, part.end.crc))(
        Some(archive.segments.table(part))
      ).get

    override def fetch(pages: Seq[PageRef], window: Seq[WindowPart]): Unit = {
      val reads = pages.map(one => run(() => page(one))) ++ window.map(one => run(() => table(one)))
      // This thread performs the last read.
      val others = reads.dropRight(1).map(CompletableFuture.runAsync(_, threads))
      reads.lastOption.foreach(_.run())
      try others.foreach(_.get())
      catch { case e: ExecutionException => throw e.getCause }
    }

    private def run[A](read: () => A): Runnable = () => {
      read()
      ()
    }
  }

  /** Concurrent reads in one process. */
  private val Readers = 8

  final private case class Key(location: String, name: String, crc: Int)

  private val threads =
    Executors.newFixedThreadPool(Readers, DaemonThreads.named("cleancut-parts"))
  private val MaxBytes = 64L << 20
  private val pages = new SharedReads[Key, CutPage](MaxBytes, _.sizeBytes)
  private val tables = new SharedReads[Key, PackedFrames](MaxBytes, _.sizeBytes)
}
