package io.cleancut.format.frame

import java.nio.ByteBuffer

import io.cleancut.format.FrameLayout

/**
 * The totals of a family after a frame: its keys, and the bytes of its rows as defined by the
 * format.
 */
final case class FamilyTotals(keys: Long, bytes: Long)

/**
 * The content of a base's block: rows of one family whose hashes are in no other block.
 *
 * @param bytes
 *   size of its rows, as in [[FamilyTotals]]
 * @param firstHash
 *   lowest hash of its keys, unsigned
 */
final case class BlockContent(family: Int, bytes: Int, firstHash: Int, lastHash: Int)

/** The location of a block in a base, and the content of its header. */
final case class BlockPlace(
    ordinal: Int,
    offset: Long,
    rawBytes: Int,
    storedBytes: Int,
    records: Int,
    content: BlockContent
)

/**
 * The index between the blocks of a frame and its trailer. See `docs/FORMAT.md`, "Index".
 *
 * @param totals
 *   totals by family ID; empty if the frame does not have them
 * @param blocks
 *   blocks of a base, in order; empty if they cannot be read individually
 */
final case class FrameIndex(totals: Map[Int, FamilyTotals], blocks: Vector[BlockPlace]) {
  import FrameIndex._

  /** The inconsistency of the index in a frame with this number of keys, if any. */
  private[format] def problem(keys: Long): Option[String] = {
    val ofBlocks = blocks.groupMapReduce(_.content.family)(_.content.bytes.toLong)(_ + _)
    val odd = totals.collectFirst {
      case (id, family) if blocks.nonEmpty && ofBlocks.getOrElse(id, 0L) != family.bytes =>
        s"the blocks of family $id do not match its totals in the index"
    }
    if (totals.nonEmpty && totals.valuesIterator.map(_.keys).sum != keys)
      Some(s"the families of the index do not have $keys keys")
    else if (ofBlocks.keySet.exists(!totals.contains(_)))
      Some("the index has a block of an unknown family")
    else odd
  }

  private[format] def toBytes: Array[Byte] = {
    val bytesOfBlocks = if (blocks.isEmpty) 0 else 4 + blocks.size * BlockBytes
    val out = FrameLayout.buffer(4 + totals.size * TotalsBytes + bytesOfBlocks)
    out.putInt(totals.size)
    totals.toSeq.sortBy(_._1).foreach { case (family, total) =>
      out.putInt(family).putLong(total.keys).putLong(total.bytes)
    }
    if (blocks.nonEmpty) out.putInt(blocks.size)
    blocks.foreach { block =>
      out.putInt(block.rawBytes).putInt(block.storedBytes).putInt(block.records)
      val content = block.content
      out.putInt(content.family).putInt(content.bytes)
      out.putInt(content.firstHash).putInt(content.lastHash)
    }
    out.array
  }
}

object FrameIndex {
  private val TotalsBytes = 20
  private val BlockBytes = 28

  /**
   * Parses bytes with a valid checksum.
   *
   * @param firstBlock
   *   offset of the frame's first block
   * @throws java.lang.IllegalArgumentException
   *   if the bytes are no index
   */
  private[format] def parse(bytes: Array[Byte], firstBlock: Long): FrameIndex = {
    val in = FrameLayout.wrap(bytes)
    val totals = Vector.fill(count(in, TotalsBytes)) {
      in.getInt -> FamilyTotals(in.getLong, in.getLong)
    }
    var offset = firstBlock
    val blockCount = if (in.hasRemaining) count(in, BlockBytes) else 0
    val blocks = Vector.tabulate(blockCount) { ordinal =>
      val (raw, stored, records) = (in.getInt, in.getInt, in.getInt)
      val content = BlockContent(in.getInt, in.getInt, in.getInt, in.getInt)
      require(raw > 0 && stored > 0 && records > 0 && content.bytes > 0, s"block $ordinal is empty")
      val place = BlockPlace(ordinal, offset, raw, stored, records, content)
      offset += FrameLayout.BlockHeaderBytes + stored.toLong
      place
    }
    require(!in.hasRemaining, "it continues after its blocks")
    require(
      totals.forall { case (_, total) => total.keys >= 0L && total.bytes >= 0L },
      "a total is negative"
    )
    FrameIndex(totals.toMap, blocks)
  }

  private def count(in: ByteBuffer, each: Int): Int = {
    require(in.remaining >= 4, "it is truncated")
    val number = in.getInt
    require(number >= 0 && number.toLong * each <= in.remaining, "it is truncated")
    number
  }
}
