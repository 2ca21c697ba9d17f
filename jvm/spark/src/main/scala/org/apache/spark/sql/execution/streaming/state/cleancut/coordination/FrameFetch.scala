package org.apache.spark.sql.execution.streaming.state.cleancut.coordination

import java.io.{ByteArrayInputStream, InputStream}
import java.util.Arrays
import java.util.concurrent.{
  CompletableFuture,
  ConcurrentHashMap,
  ExecutionException,
  Executor,
  Executors
}

import scala.util.Using

import org.apache.spark.sql.execution.streaming.state.cleancut.localfiles.{CheckedInput, RangeInput}

import io.cleancut.base.{Crc, DaemonThreads, StateVersion}
import io.cleancut.cutstore.SegmentPieces
import io.cleancut.error.CleancutException
import io.cleancut.format.{FrameKind, FramePlace}
import io.cleancut.format.frame.{LoadPhase, LoadWatch}
import io.cleancut.objectstore.{ObjectKey, ObjectStore}

/** Reads frames of one store from segments, with prefetching of small ones. Thread-safe. */
final private[coordination] class FrameFetch(root: ObjectStore, runId: String) {
  import FrameFetch._

  private val fetched = new ConcurrentHashMap[(StateVersion, FrameKind), Fetching]

  /**
   * Input of a frame. A completely fetched frame is compared with the checksum in the cut first.
   */
  def input(
      version: StateVersion,
      kind: FrameKind,
      place: FramePlace,
      watch: LoadWatch,
      damaged: => CleancutException
  ): InputStream =
    if (place.length > PieceBytes)
      new CheckedInput(inPieces(place), place.crc, damaged)
    else {
      val bytes = downloading(watch)(
        Option(fetched.remove((version, kind))).fold(whole(place))(_.get())
      )
      if (Crc.of(bytes) != place.crc) throw damaged
      new ByteArrayInputStream(bytes)
    }

  /** Fetches the next piece while one is decoded. */
  private def inPieces(place: FramePlace): InputStream =
    input(place, ahead = Some((threads, PiecesAhead)))

  private def whole(place: FramePlace): Array[Byte] =
    Using.resource(input(place, ahead = None))(_.readAllBytes())

  /** Segment parts are shared, because other stores of this process have adjacent frames. */
  private def shared(place: FramePlace): Array[Byte] =
    SegmentPieces.shared.range(root, runId, place).getOrElse(whole(place))

  private def input(place: FramePlace, ahead: Option[(Executor, Int)]): InputStream =
    new RangeInput(root, ObjectKey(place.segment), place.offset, place.length, PieceBytes, ahead)

  /**
   * Begins to fetch the small frames of a chain concurrently, with one request for adjacent frames;
   * large frames are fetched when they are due.
   */
  def fetchAhead(chain: Seq[(FrameKind, StateVersion, FramePlace)]): Unit = {
    fetched.clear()
    if (chain.size > 1) {
      val small = chain.filter(_._3.length <= MaxAheadBytes)
      val names = small.map { case (kind, version, place) => place -> (version, kind) }.toMap
      FramePlace.ranges(small.map(_._3), maxGap = 0L, PieceBytes.toLong).foreach { near =>
        val from = near.head.offset
        val range = near.head.copy(length = near.last.offset + near.last.length - from)
        val ahead = CompletableFuture.supplyAsync[Array[Byte]](() => shared(range), threads)
        near.foreach { place =>
          val at = (place.offset - from).toInt
          val part =
            ahead.thenApply[Array[Byte]](Arrays.copyOfRange(_, at, at + place.length.toInt))
          fetched.put(names(place), part)
        }
      }
    }
  }
}

private[coordination] object FrameFetch {
  private type Fetching = CompletableFuture[Array[Byte]]

  private val PieceBytes = 8 << 20
  private val PiecesAhead = 1
  private val MaxAheadBytes = 1L << 20

  /** Concurrent reads of one process while stores are loaded. */
  private val Readers = 8
  val threads: Executor =
    Executors.newFixedThreadPool(Readers, DaemonThreads.named("cleancut-restore"))

  /** Runs a network wait, and adds its time to that phase of the load. */
  def downloading[A](watch: LoadWatch)(body: => A): A = {
    val phase = watch.enter(LoadPhase.Download)
    try body
    catch { case e: ExecutionException => throw e.getCause }
    finally {
      watch.enter(phase)
      ()
    }
  }
}
