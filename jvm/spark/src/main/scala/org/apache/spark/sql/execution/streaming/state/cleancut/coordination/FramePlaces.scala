package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

import io.cleancut.base.{Clock, StateVersion, StoreId}
import io.cleancut.cutstore.{CutArchive, CutCache}
import io.cleancut.format.{CutLayout, FrameKind, FramePlace, StoreCut}
import io.cleancut.format.frame.LoadWatch

/**
 * The locations of one store's frames, from the cuts of its query. Thread-safe.
 *
 * @param savepoint
 *   savepoint of all reads, if the reader is not the query
 */
final private[coordination] class FramePlaces(
    store: StoreId,
    checkpoint: String,
    archive: CutArchive,
    runId: String,
    savepoint: Option[String],
    clock: Clock
) {
  private val places = new ConcurrentHashMap[(StateVersion, FrameKind), FramePlace]
  // The frames of a sealed version that has no cut yet.
  @volatile private var sealedChain = Option.empty[StoreCut]

  def find(version: StateVersion, kind: FrameKind): Option[FramePlace] =
    Option(places.get((version, kind)))

  def add(version: StateVersion, kind: FrameKind, place: FramePlace): Unit = {
    places.put((version, kind), place)
    ()
  }

  def add(frames: Seq[(FrameKind, StateVersion, FramePlace)]): Unit =
    frames.foreach { case (kind, version, place) => add(version, kind, place) }

  /** The seal of an earlier run has the version that is opened. */
  def takeOver(chain: Option[StoreCut]): Unit = sealedChain = chain

  /** The object of a frame and its offset, for messages. */
  def path(version: StateVersion, kind: FrameKind): String = {
    val path = find(version, kind).fold(CutLayout.segmentsOf(version.number - 1)) { place =>
      s"${place.segment} at ${place.offset}"
    }
    s"${archive.location}/$path"
  }

  /**
   * The object that states the frames of a version, for messages; None if no cut or seal does.
   */
  def source(version: StateVersion): Option[String] =
    Option.when(FrameKind.all.exists(find(version, _).isDefined)) {
      val epoch = version.number - 1
      val name =
        if (sealedChain.exists(_.version == version)) CutLayout.sealsOf(epoch)
        else savepoint.fold(CutLayout.cut(epoch))(CutLayout.savepoint)
      s"${archive.location}/$name"
    }

  /**
   * The chains of the versions from `first` to `last` that have cuts; None if the cut does not have
   * the store. Adds their locations.
   */
  def list(first: Long, last: Long, watch: LoadWatch): Seq[Option[StoreCut]] = {
    val known = archive.bytesRead
    val ahead = sealedChain.filter(_.version.number == last)
    val numbers = first to (if (ahead.isDefined) last - 1 else last)
    val chains = numbers.flatMap(made) ++ ahead.map(Some(_))
    watch.addCutBytes(archive.bytesRead - known)
    add(chains.flatten.flatMap(_.frames))
    chains
  }

  /** The frames of a version by its cut; None if it has no cut. */
  private def made(version: Long): Option[Option[StoreCut]] =
    savepoint match {
      case Some(name) =>
        CutCache.savepoint(archive, runId, name, version - 1).map(_.of(store))
      case None =>
        askDriver(version)
          .map(Some(_))
          .orElse(CutCache.read(archive, runId, version - 1).map(_.of(store)))
    }

  /** The driver of a run has its last cut in memory, so that its tasks need not read it. */
  private def askDriver(version: Long): Option[StoreCut] =
    if (TaskContext.get() == null || runId.isEmpty) None
    else
      CutsClient.ask(
        ChainRequest(checkpoint, runId, store, version),
        clock,
        archive.store.requestTimeoutMs
      ) match {
        case ChainReply(chain) => chain
        case _                 => None
      }
}
