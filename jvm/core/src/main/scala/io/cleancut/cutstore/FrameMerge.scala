package io.cleancut.cutstore

import java.util.Arrays

import scala.collection.mutable

import io.cleancut.base.{Crc, StateVersion}
import io.cleancut.objectstore.{ObjectKey, RangeResult}
import io.cleancut.format._
import io.cleancut.format.cut.{RunId, SealedFrame, Segment}

/**
 * Merges the small deltas of chains, which are in the segments of many epochs, into new segments,
 * so that restoring a store requires one range read. Bases are not moved: a cut recognizes bases
 * that it references first by their locations.
 *
 * @param run
 *   run that owns the query
 * @param batchBytes
 *   approximate number of bytes in memory
 */
final private[cleancut] class FrameMerge(
    archive: CutArchive,
    run: RunId,
    newId: () => String,
    batchBytes: Long = FrameMerge.BatchBytes
) {
  import FrameMerge._

  /**
   * The same chains with the new locations of the merged frames, which are durable then.
   *
   * @param epoch
   *   epoch after which the chains are complete
   */
  def apply(epoch: Long, chains: Seq[StoreCut]): Seq[StoreCut] = {
    val moved = batches(chains).flatMap(merge(epoch, _)).toMap
    chains.map(chain => moved.getOrElse(chain.store, chain))
  }

  private def batches(chains: Seq[StoreCut]): Seq[Seq[StoreCut]] = {
    val groups = mutable.Buffer.empty[mutable.Buffer[StoreCut]]
    var bytes = batchBytes
    chains.filter(scattered(_).sizeIs > 1).foreach { chain =>
      if (bytes >= batchBytes) {
        groups += mutable.Buffer.empty
        bytes = 0L
      }
      groups.last += chain
      bytes += scattered(chain).map(_._3.length).sum
    }
    groups.map(_.toSeq).toSeq
  }

  private def scattered(chain: StoreCut): Seq[Chains.Frame] =
    chain.frames.filter { case (kind, _, place) =>
      kind == FrameKind.Delta && place.length <= MaxFrameBytes && !isMerged(place.segment)
    }

  private def merge(epoch: Long, chains: Seq[StoreCut]) = {
    val bytes = read(chains.flatMap(scattered(_).map(_._3)))
    // Unreadable frames stay in place; their readers report them.
    val whole = chains.filter(scattered(_).forall(frame => bytes.contains(frame._3)))
    if (whole.isEmpty) Nil
    else {
      val frames = whole.flatMap { chain =>
        scattered(chain).map { case (kind, version, place) =>
          val name = FrameName(chain.store, version, kind)
          SealedFrame(name, SealedFrame.Maintenance, bytes(place))
        }
      }
      val identity = SegmentIdentity(epoch, Writer, run.runId, run.generation)
      val segment = new Segment(CutLayout.segment(epoch, Writer, newId()), identity)
      val (packed, placed) = segment.pack(frames)
      archive.store.put(ObjectKey(segment.name), packed)
      val places = placed.groupMap(_.name.store)(frame => frame.name.version -> frame.place)
      whole.map(chain => chain.store -> moved(chain, places(chain.store).toMap))
    }
  }

  private def moved(chain: StoreCut, places: Map[StateVersion, FramePlace]): StoreCut = {
    val frames = chain.frames.map { case (kind, version, place) =>
      (kind, version, places.getOrElse(version, place))
    }
    StoreCut(chain.store, PackedChain.of(frames))
  }

  /** The bytes of the readable frames with matching checksums. */
  private def read(places: Seq[FramePlace]): collection.Map[FramePlace, Array[Byte]] = {
    val frames = mutable.HashMap.empty[FramePlace, Array[Byte]]
    for (near <- FramePlace.ranges(places, MaxGapBytes, MaxRangeBytes)) {
      val from = near.head.offset
      val length = near.last.offset + near.last.length - from
      archive.store.getRange(ObjectKey(near.head.segment), from, length.toInt) match {
        case RangeResult.Found(bytes) =>
          near.foreach { place =>
            val at = (place.offset - from).toInt
            val frame = Arrays.copyOfRange(bytes, at, at + place.length.toInt)
            if (Crc.of(frame) == place.crc) frames(place) = frame
          }
        case _ => ()
      }
    }
    frames
  }
}

private[cleancut] object FrameMerge {

  /** Infix in the names of segments with merged frames. */
  val Writer = "merged"

  /** Larger frames are worth a separate request. */
  private val MaxFrameBytes = 32L << 10
  private val BatchBytes = 8L << 20
  private val MaxGapBytes = 16L << 10
  private val MaxRangeBytes = 8L << 20
  private val OfMerged = s"/$Writer-"

  def isMerged(segment: String): Boolean = segment.contains(OfMerged)
}
