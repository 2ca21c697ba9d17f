package io.cleancut.format.frame

import java.io.ByteArrayOutputStream

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{Chains, CutLayout, FrameKind, PackedChain, PackedFrames, StoreCut}

/**
 * Which rows of its sources a base that refers to others has: those of its own partition, of so
 * many.
 *
 * @param sourcePartitions
 *   number of partitions of the state that the sources belong to; divides `partitions`. Each row of
 *   a source belongs to a partition with the same remainder, or no store would have it
 * @param keys
 *   by the name of a family the columns of its keys that rows are divided by, each by its place in
 *   the key, then in the row that is there, and so on. Families that are not named are left out
 */
final case class Spread(
    partitions: Int,
    sourcePartitions: Int,
    keys: Map[String, Seq[Seq[Int]]]
) {

  /** Whether the source of one partition may have a row of another partition. */
  def shareSource(one: Int, other: Int): Boolean =
    one % sourcePartitions == other % sourcePartitions

  private[format] def write(node: ObjectNode): Unit = {
    node.put("partitions", partitions)
    node.put("sourcePartitions", sourcePartitions)
    val families = node.putObject("keys")
    keys.toSeq.sortBy(_._1).foreach { case (name, columns) =>
      val array = families.putArray(name)
      columns.foreach { path =>
        val places = array.addArray()
        path.foreach(places.add)
      }
    }
  }
}

object Spread {

  /** Throws `IllegalArgumentException` where it is none. */
  private[format] def read(node: JsonNode): Spread = {
    val partitions = number(node.path("partitions"))
    require(partitions > 0, s"it is spread over $partitions partitions")
    val sources = number(node.path("sourcePartitions"))
    require(
      sources > 0 && partitions % sources == 0,
      s"$partitions partitions are not a multiple of $sources source partitions"
    )
    val keys = node.path("keys")
    require(keys.isObject, "it does not say by what it is spread")
    Spread(
      partitions,
      sources,
      keys.properties.asScala.map(of => of.getKey -> elements(of.getValue).map(pathOf)).toMap
    )
  }

  private def pathOf(node: JsonNode): Seq[Int] = {
    val path = elements(node).map(number)
    require(path.nonEmpty, "a column has no place")
    path
  }

  private def elements(node: JsonNode): Seq[JsonNode] = {
    require(node.isArray, s"$node is no array")
    node.elements.asScala.toVector
  }

  private def number(node: JsonNode): Int = {
    require(node.isIntegralNumber && node.canConvertToInt && node.asInt >= 0, s"$node is no number")
    node.asInt
  }
}

/**
 * A base without rows of its own: it has those that chains of other stores lead to. See
 * `docs/FORMAT.md`, "Reference".
 */
object ReferringBase {

  /** Of zstd; there is little to compress. */
  private val CompressionLevel = 1

  /**
   * The bytes of one.
   *
   * @param sources
   *   of stores of its own operator and name, ascending by their partitions
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE, no reader would take it
   */
  def encode(
      store: StoreId,
      version: StateVersion,
      sources: Seq[StoreCut],
      spread: Option[Spread]
  ): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val identity = FrameIdentity(store, version, None, Nil, spread = spread)
    val frame =
      new FrameWriter(FrameKind.Base, identity, CompressionLevel, out, isReferring = true)
    val body = PackedFrames.encode(sources.map(of => of.store -> of.frames))
    val scratch = BlockScratch.borrow()
    try {
      scratch.growRaw(body.length)
      System.arraycopy(body, 0, scratch.raw, 0, body.length)
      frame.writeBlock(scratch, body.length, sources.size)
    } finally scratch.giveBack()
    frame.finish(keys = 0L)
    out.toByteArray
  }

  /** Throws `IllegalArgumentException` or `BufferUnderflowException` where it is no such thing. */
  private[format] def parse(store: StoreId, count: Int, body: Array[Byte]): Seq[StoreCut] = {
    val frames = PackedFrames.parse(body)
    require(frames.stores.size == count, s"it has ${frames.stores.size} of them, and not $count")
    val unknown = frames.segments.find(CutLayout.parseSegment(_).isEmpty)
    require(unknown.isEmpty, s"${unknown.getOrElse("")} is no name of a segment")
    frames.all.map { case (source, of) =>
      val isAlike = source.operator == store.operator && source.name == store.name
      require(isAlike, s"$source is another kind of store")
      require(of.nonEmpty, s"no frames of $source")
      Chains.checked(of.last._2.number - 1, StoreCut(source, PackedChain.of(of)))
    }.toVector
  }
}
