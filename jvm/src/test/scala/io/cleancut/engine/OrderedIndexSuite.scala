package io.cleancut.engine

import scala.collection.mutable
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

class OrderedIndexSuite extends AnyFunSuite {

  test("a tree agrees with a sorted set through inserts, removals and equal ranks") {
    for (seed <- 0 until 40) withClue(s"seed $seed: ") {
      val memory = new CheckedMemory(RawMemory)
      val account = MemoryAccount.over(memory)
      val tree = new OrderedIndex(memory, account)
      val random = new Random(seed)
      val ranks = 1 + random.nextInt(if (seed % 2 == 0) 5 else 5000)
      val model = mutable.TreeSet.empty[(Long, Int)]
      for (i <- 1 to 4000) {
        if (random.nextInt(5) == 0 && model.nonEmpty) {
          val (rank, ref) = model.iterator.drop(random.nextInt(Math.min(model.size, 50))).next()
          tree.remove(rank, ref)
          model.remove((rank, ref))
        } else {
          val rank = random.nextInt(ranks).toLong - ranks / 2
          tree.insert(rank, i)
          model.add((rank, i))
        }
      }
      assert(tree.size == model.size)
      for (rank <- model.map(_._1).take(200) ++ Seq(Long.MinValue, Long.MaxValue)) {
        val expected = model.iterator.filter(_._1 == rank).map(_._2).toSeq
        assert(refs(tree, rank) == expected)
      }
      tree.free()
      assert(memory.liveAllocations == 0)
    }
  }

  test("ascending and descending inserts are found again") {
    for (order <- Seq((1 to 3000), (1 to 3000).reverse)) {
      val tree = new OrderedIndex(RawMemory, MemoryAccount.over(RawMemory))
      order.foreach(i => tree.insert(i.toLong * 1000, i))
      assert((1 to 3000).forall(i => refs(tree, i.toLong * 1000) == Seq(i)))
      tree.free()
    }
  }

  test("refs above 2^31 come after those below") {
    val tree = new OrderedIndex(RawMemory, MemoryAccount.over(RawMemory))
    val low = 5
    val high = 0x80000005
    tree.insert(1L, high)
    tree.insert(1L, low)
    assert(refs(tree, 1L) == Seq(low, high))
    tree.free()
  }

  private def refs(tree: OrderedIndex, rank: Long): Seq[Int] = {
    val piece = new Array[Int](7)
    val found = mutable.ArrayBuffer.empty[Int]
    var filled = tree.refsOf(rank, 0, piece)
    while (filled > 0) {
      found ++= piece.take(filled)
      filled = tree.refsOf(rank, piece(filled - 1), piece)
    }
    found.toSeq
  }
}
