package io.cleancut.cutstore

import java.util.concurrent.{CompletableFuture, ExecutionException, Executors}

import io.cleancut.base.{Crc, DaemonThreads, SharedReads, StoreId}
import io.cleancut.error.Errors
import io.cleancut.format.{Chains, Channels, PackedFrames, StoreOrder}
import io.cleancut.format.cut.{CutPage, PageRef, Segment, WindowPart}

/** The pages and tables that a cut leaves its chains to, where they are read. */
trait CutParts {
  def page(of: PageRef): CutPage

  /** The frames of a segment, by store; those of channels aside. */
  def table(of: WindowPart): PackedFrames

  /** Has what is needed of these at hand, read at once where that can be. */
  def fetch(pages: Seq[PageRef], window: Seq[WindowPart]): Unit = ()
}

object CutParts {

  /**
   * A page of which these should be the bytes.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def page(path: String, ref: PageRef, bytes: Array[Byte]): CutPage = {
    def damaged(detail: String) = throw Errors.cutCorrupted(path, detail)
    if (bytes.length != ref.length || Crc.of(bytes) != ref.crc) {
      damaged("it is not the page that the cut names")
    }
    val page = CutPage.parse(path, ref.epoch, bytes)
    val (size, first) = (page.stores.size, page.stores.head)
    if (size != ref.stores || first != ref.first) {
      damaged(
        s"it has $size stores from $first on, the cut says ${ref.stores} from ${ref.first} on"
      )
    }
    page
  }

  /**
   * The frames of a segment of which this should be the footer.
   *
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_CUT_CORRUPTED
   */
  def table(path: String, part: WindowPart, footer: Array[Byte]): PackedFrames = {
    val frames = Segment.parseFooter(part.segment, path, footer, part.end)
    part.counted.offsets.diff(frames.map(_.place.offset)).foreach { offset =>
      throw Errors.cutCorrupted(path, s"the cut names a frame at $offset, and there is none")
    }
    // A writer has them in this order, so that to sort them is to look at each once.
    val ordered = frames
      .filterNot(of => Channels.isChannel(of.name.store))
      .sortBy(_.name.store)(StoreOrder)
    val byStore = Vector.newBuilder[(StoreId, Seq[Chains.Frame])]
    val rest = ordered.iterator.buffered
    while (rest.hasNext) {
      val store = rest.head.name.store
      val own = Vector.newBuilder[Chains.Frame]
      while (rest.headOption.exists(_.name.store == store)) {
        val frame = rest.next()
        own += ((frame.name.kind, frame.name.version, frame.place))
      }
      byStore += store -> own.result().sortBy(_._2.number)
    }
    PackedFrames.of(byStore.result())
  }

  /** Read each time. */
  def read(archive: CutArchive): CutParts = new CutParts {
    override def page(of: PageRef): CutPage = archive.pages.read(of)
    override def table(of: WindowPart): PackedFrames = archive.segments.table(of)
  }

  /** What this process has read last is kept: the stores of an executor ask for the same. */
  def shared(archive: CutArchive): CutParts = new Shared(archive)

  final private class Shared(archive: CutArchive) extends CutParts {
    override def page(of: PageRef): CutPage =
      pages(Key(archive.location, of.name, of.crc))(Some(archive.pages.read(of))).get

    override def table(of: WindowPart): PackedFrames =
      tables(Key(archive.location, of.segment, of.end.crc))(Some(archive.segments.table(of))).get

    override def fetch(of: Seq[PageRef], window: Seq[WindowPart]): Unit = {
      val reads = of.map(one => run(() => page(one))) ++ window.map(one => run(() => table(one)))
      // The last one is left to this thread.
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

  /** Reads at once in one process. */
  private val Readers = 8

  final private case class Key(location: String, name: String, crc: Int)

  private val threads =
    Executors.newFixedThreadPool(Readers, DaemonThreads.named("cleancut-parts"))
  private val MaxBytes = 64L << 20
  private val pages = new SharedReads[Key, CutPage](MaxBytes, _.sizeBytes)
  private val tables = new SharedReads[Key, PackedFrames](MaxBytes, _.sizeBytes)
}
