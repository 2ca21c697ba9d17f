package io.cleancut.format.frame

import java.nio.ByteBuffer

import io.cleancut.format.FrameLayout

/**
 * What a family has after a frame: its keys, and the bytes of its rows by the rule of the format.
 */
final case class FamilyTotals(keys: Long, bytes: Long)

/**
 * What a block of a base holds: rows of one family only, and of no other block's hashes.
 *
 * @param bytes
 *   of its rows, as [[FamilyTotals]] counts them
 * @param firstHash
 *   the lowest of its keys' hashes, which are unsigned
 */
final case class BlockContent(family: Int, bytes: Int, firstHash: Int, lastHash: Int)

/** Where a block of a base begins, and what its header will say. */
final case class BlockPlace(
    ordinal: Int,
    offset: Long,
    rawBytes: Int,
    storedBytes: Int,
    records: Int,
    content: BlockContent
)

/**
 * What stands between the blocks of a frame and its trailer. See `docs/FORMAT.md`, "Index".
 *
 * @param totals
 *   of each family by its id; empty if the frame does not say
 * @param blocks
 *   of a base, in their order; empty also if its blocks cannot be read one by one
 */
final case class FrameIndex(totals: Map[Int, FamilyTotals], blocks: Vector[BlockPlace]) {
  import FrameIndex._

  /** What is wrong with it, in a frame that has so many keys. */
  private[format] def problem(keys: Long): Option[String] = {
    val ofBlocks = blocks.groupMapReduce(_.content.family)(_.content.bytes.toLong)(_ + _)
    val odd = totals.collectFirst {
      case (id, of) if blocks.nonEmpty && ofBlocks.getOrElse(id, 0L) != of.bytes =>
        s"the blocks of family $id are not what the index says of it"
    }
    if (totals.nonEmpty && totals.valuesIterator.map(_.keys).sum != keys)
      Some(s"the families of the index have not $keys keys")
    else if (ofBlocks.keySet.exists(!totals.contains(_)))
      Some("the index has a block of a family that it does not have")
    else odd
  }

  private[format] def toBytes: Array[Byte] = {
    val bytesOfBlocks = if (blocks.isEmpty) 0 else 4 + blocks.size * BlockBytes
    val out = FrameLayout.buffer(4 + totals.size * TotalsBytes + bytesOfBlocks)
    out.putInt(totals.size)
    totals.toSeq.sortBy(_._1).foreach { case (family, of) =>
      out.putInt(family).putLong(of.keys).putLong(of.bytes)
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
   * Reads what was found sound.
   *
   * @param firstBlock
   *   where the first block of the frame begins
   * @throws java.lang.IllegalArgumentException
   *   these bytes are no index
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
    require(!in.hasRemaining, "it goes on after its blocks")
    require(
      totals.forall { case (_, of) => of.keys >= 0L && of.bytes >= 0L },
      "a total is negative"
    )
    FrameIndex(totals.toMap, blocks)
  }

  private def count(in: ByteBuffer, each: Int): Int = {
    require(in.remaining >= 4, "it is cut short")
    val found = in.getInt
    require(found >= 0 && found.toLong * each <= in.remaining, "it is cut short")
    found
  }
}
