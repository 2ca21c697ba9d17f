package io.cleancut.engine

import java.nio.ByteBuffer

import org.scalatest.funsuite.AnyFunSuite

import io.cleancut.engine.memory.{Bytes, KeyHash, Memory, RawMemory}
import io.cleancut.testkit.TestMemory

/** Keys with equal hashes, as about one in ten thousand keys of a large store has. */
class HashCollisionSuite extends AnyFunSuite {
  import HashCollisionSuite._

  test("puts, gets, removals and ordered scans distinguish two keys with one hash") {
    for (mode <- TestMemory.modes) TestMemory.using(mode) { owned =>
      val table = new Table(owned.memory, owned.account, "colliding", Some(new OnePlace))
      for (pair <- twins; key <- pair) table.put(bytes(key), bytes(key))
      val mark = table.mark()
      for (pair <- twins) {
        assert(table.remove(bytes(pair.head)))
        table.put(bytes(pair.last), bytes(0L))
      }
      val first = twins.head
      assert(table.find(bytes(first.head), Record.NoBound) == 0L)
      assert(table.find(bytes(first.last), Record.NoBound) != 0L)
      assert(scanned(table, owned.memory, Record.NoBound) == twins.map(_.last -> 0L).toMap)
      val before = twins.flatten.map(key => key -> key).toMap
      assert(scanned(table, owned.memory, mark.end) == before)
      table.purge(table.end)
      assert(scanned(table, owned.memory, Record.NoBound) == twins.map(_.last -> 0L).toMap)
      table.free()
    }
  }

  test("an abort restores the removed one of two keys with one hash") {
    TestMemory.using("checked") { owned =>
      val table = new Table(owned.memory, owned.account, "colliding", Some(new OnePlace))
      for (pair <- twins) table.put(bytes(pair.head), bytes(pair.head))
      val mark = table.mark()
      for (pair <- twins) {
        table.put(bytes(pair.last), bytes(1L))
        assert(table.remove(bytes(pair.head)))
      }
      table.rollback(mark)
      val before = twins.map(pair => pair.head -> pair.head).toMap
      assert(scanned(table, owned.memory, Record.NoBound) == before)
      assert(twins.forall(pair => table.find(bytes(pair.last), Record.NoBound) == 0L))
      table.free()
    }
  }

  private def scanned(table: Table, memory: Memory, bound: Int): Map[Long, Long] = {
    val scan = table.scan(new Place(0L, 0L), null, bound)
    Iterator
      .continually(scan.advance())
      .takeWhile(identity)
      .map { _ =>
        val key = memory.getLong(Record.keyAddress(scan.address))
        val value = memory.getLong(Record.valueAddress(scan.address, 8))
        java.lang.Long.reverseBytes(key) -> java.lang.Long.reverseBytes(value)
      }
      .toMap
  }
}

object HashCollisionSuite {

  /** Pairs of keys with one hash; about forty exist among these numbers. */
  private lazy val twins: Seq[Seq[Long]] = (0L until 600000L)
    .groupBy { key =>
      val at = bytes(key)
      KeyHash.hash32(RawMemory, at.base, at.offset, at.length)
    }
    .valuesIterator
    .filter(_.size > 1)
    .map(_.take(2))
    .toSeq

  private def bytes(key: Long): Bytes = Bytes.of(ByteBuffer.allocate(8).putLong(key).array)

  private class OnePlace extends KeyOrder {
    override def locate(key: Bytes): Unit = ()
    override def major: Long = 1L
    override def minor: Long = 1L
  }
}
