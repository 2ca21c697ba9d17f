package io.cleancut.format.frame

import java.io.ByteArrayOutputStream

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.ObjectNode

import io.cleancut.base.{StateVersion, StoreId}
import io.cleancut.format.{Chains, CutLayout, FrameKind, PackedChain, PackedFrames, StoreCut}

/**
 * The rows that a base takes from its sources: those of its partition, for a number of partitions.
 *
 * @param sourcePartitions
 *   greatest common divisor of `partitions` and the number of partitions of the sources' state.
 *   Each row of a source belongs to a partition with the same remainder, otherwise no store would
 *   contain it
 * @param keys
 *   partitioning columns of the keys by family name, each as a path: its index in the key, then in
 *   the nested row, and so on. Families that are not listed are left out
 */
final case class Spread(
    partitions: Int,
    sourcePartitions: Int,
    keys: Map[String, Seq[Seq[Int]]]
) {

  /** Whether the source of one partition may have a row of another partition. */
  def shareSource(one: Int, other: Int): Boolean =
    one % sourcePartitions == other % sourcePartitions

  /** How often a row of the sources is read: by each store that has the source. */
  def reads: Int = partitions / sourcePartitions

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

  /** Throws `IllegalArgumentException` if the node is invalid. */
  private[format] def read(node: JsonNode): Spread = {
    val partitions = number(node.path("partitions"))
    require(partitions > 0, s"it is spread over $partitions partitions")
    val sources = number(node.path("sourcePartitions"))
    require(
      sources > 0 && partitions % sources == 0,
      s"$partitions partitions are not a multiple of $sources source partitions"
    )
    val keys = node.path("keys")
    require(keys.isObject, "it has no partitioning columns")
    Spread(
      partitions,
      sources,
      keys.properties.asScala
        .map(family => family.getKey -> elements(family.getValue).map(pathOf))
        .toMap
    )
  }

  private def pathOf(node: JsonNode): Seq[Int] = {
    val path = elements(node).map(number)
    require(path.nonEmpty, "a column has no path")
    path
  }

  private def elements(node: JsonNode): Seq[JsonNode] = {
    require(node.isArray, s"$node is not an array")
    node.elements.asScala.toVector
  }

  private def number(node: JsonNode): Int = {
    require(
      node.isIntegralNumber && node.canConvertToInt && node.asInt >= 0,
      s"$node is not a number"
    )
    node.asInt
  }
}

/**
 * A base without rows that references chains of other stores. See `docs/FORMAT.md`, "Reference".
 */
object ReferringBase {

  /** Number of bytes for [[isBegunBy]]. */
  val HeadBytes: Int = 8

  /** Whether a frame with these first bytes is such a base. */
  def isBegunBy(head: Array[Byte]): Boolean = head(KindAt) == FrameKind.ReferenceCode

  private val KindAt = 6

  /** zstd level; there is little to compress. */
  private val CompressionLevel = 1

  /**
   * The bytes of such a base.
   *
   * @param sources
   *   chains of stores with the same operator and name, ascending by partition
   * @throws io.cleancut.error.CleancutException
   *   CLEANCUT_OBJECT_TOO_LARGE if readers would refuse it
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
    val body = PackedFrames.encode(sources.map(source => source.store -> source.frames))
    val scratch = BlockScratch.borrow()
    try {
      scratch.growRaw(body.length)
      System.arraycopy(body, 0, scratch.raw, 0, body.length)
      frame.writeBlock(scratch, body.length, sources.size)
    } finally scratch.giveBack()
    frame.finish(keys = 0L)
    out.toByteArray
  }

  /** Throws `IllegalArgumentException` or `BufferUnderflowException` if the bytes are invalid. */
  private[format] def parse(store: StoreId, count: Int, body: Array[Byte]): Seq[StoreCut] = {
    val frames = PackedFrames.parse(body)
    require(frames.stores.size == count, s"it has ${frames.stores.size} sources instead of $count")
    val unknown = frames.segments.find(CutLayout.parseSegment(_).isEmpty)
    require(unknown.isEmpty, s"${unknown.getOrElse("")} is not the name of a segment")
    frames.all.map { case (source, chain) =>
      val isAlike = source.operator == store.operator && source.name == store.name
      require(isAlike, s"$source is another kind of store")
      require(chain.nonEmpty, s"no frames of $source")
      Chains.checked(chain.last._2.number - 1, StoreCut(source, PackedChain.of(chain)))
    }.toVector
  }
}
